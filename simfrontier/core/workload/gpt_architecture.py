"""Architecture of a decoder GPT: its sizes, and its differences from the default architecture."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from simfrontier.base.errors import InputError
from simfrontier.core.program import Routing

Residual = Literal["parallel", "sequential"]
Norm = Literal["layernorm", "rmsnorm"]
Positions = Literal["none", "learned", "rotary", "alibi"]
Router = Literal["softmax", "sigmoid"]
Multiple = int  # of which a size is made one: no size itself
Count = int  # of experts: no size that every model has


@dataclass(frozen=True, slots=True, kw_only=True)
class GptArchitecture:
    """Architecture of a decoder GPT. The default values describe GPT-NeoX without position embeddings.

    residual      parallel: attention and MLP read the same residual stream (GPT-J, GPT-NeoX-20B); sequential: the MLP
                  follows the attention
    tied          the head uses the embedding's table
    ffn_hidden    features of the MLP (None: 4 × hidden)
    gated         silu(gate) · up instead of GELU, with gate and up of ffn_hidden features each, from one matrix product
                  (SwiGLU, arXiv 2002.05202)
    kv_heads      number of key and value heads, each shared by equally many query heads (GQA, arXiv 2305.13245; None:
                  heads)
    head_dim      features of a head, where they are not hidden / heads (Gemma, Qwen3, Mistral NeMo)
    kv_rank       features of the latent from which keys and values of all heads are computed (multi-head latent
                  attention, arXiv 2405.04434; None: there is none); `q_rank` those of the queries' latent (None:
                  queries come from the stream). A head then has `nope_features` that are not rotated and
                  `rope_features` that are, in queries and keys, and `value_features` of values
    qk_norm       an RMSNorm over the features of each query head, and of each key head, before they are rotated (Qwen3)
    norm          rmsnorm has a scale but no bias, and subtracts no mean (arXiv 1910.07467)
    biases        False: neither linear modules nor norms have biases (MPT's no_bias, Llama)
    qkv_biases    biases of the projections to queries, keys and values where others have none (Qwen2; None: as biases)
    positions     learned: a table sequence × hidden added to the embedding; rotary: queries and keys are rotated in
                  memory (arXiv 2104.09864, all features of a head); alibi: a slope added to scores (arXiv 2108.12409),
                  which takes no op of its own; none: position embeddings are not modelled
    embedding_norm      a norm between embedding and layers (BLOOM)
    causal              fused attention multiplies only s (s + 1) / 2 of the s² pairs of positions
    window, full_every  positions that a position attends to at most, itself among them, in all layers but each
                        `full_every`-th one (None: in all layers); counted where attention is fused and causal
    dropout             in three places of a layer, as in Megatron-LM: on the probabilities of plain attention, and on
                        the outputs of attention and of the MLP; each stores a mask of one byte per element
    experts       number of experts of a layer, in place of its MLP (None: the model is dense); `experts_per_token` of
                  them compute each position, with `expert_ffn` features (None: ffn_hidden), and shared experts with
                  `shared_ffn` features together compute all positions
    dense_layers  number of the first layers that have an MLP instead of experts; `expert_every`: of the layers after
                  them each such one has experts, beginning with the last of the first so many
    capacity      rows that an expert takes of a sample, relative to their mean; further rows are dropped, missing ones
                  are padded (None: dropless, and balanced)
    expert_groups equal groups of experts, of which the choices of a position fall into `groups_per_token` at most
    expert_skew   rows of the most loaded rank, relative to their mean: every rank is taken to have as many, since all
                  wait for it
    router        how scores of experts become weights: softmax or sigmoid of the scores of those chosen
    vocabulary_multiple the vocabulary is padded to a multiple of this number in the tables of embedding and head
                        (Megatron-LM's make-vocab-size-divisible-by × tensor parallelism)
    """

    name: str
    num_layers: int
    hidden: int
    heads: int
    vocabulary: int
    sequence: int
    source: str
    residual: Residual = "parallel"
    tied: bool = False
    ffn_hidden: int | None = None
    gated: bool = False
    kv_heads: int | None = None
    head_dim: int | None = None
    q_rank: int | None = None
    kv_rank: int | None = None
    nope_features: int | None = None
    rope_features: int | None = None
    value_features: int | None = None
    qk_norm: bool = False
    norm: Norm = "layernorm"
    biases: bool = True
    qkv_biases: bool | None = None
    positions: Positions = "none"
    embedding_norm: bool = False
    causal: bool = False
    vocabulary_multiple: Multiple = 1
    window: int | None = None
    full_every: int | None = None
    dropout: bool = False
    experts: int | None = None
    experts_per_token: Count = 1
    expert_ffn: int | None = None
    shared_ffn: Count = 0
    dense_layers: Count = 0
    expert_every: Count = 1
    capacity: float | None = None
    router: Router = "softmax"
    expert_groups: Count = 1
    groups_per_token: Count = 1
    expert_skew: float = 1.0

    def __post_init__(self) -> None:
        if self.head_dim is None and not self.is_latent and self.hidden % self.heads:
            raise InputError(
                f"model {self.name}: hidden = {self.hidden} does not divide into heads = {self.heads}; "
                f"nearest that does: heads = {_nearest_divisor(self.hidden, self.heads)}"
            )
        if self.heads % self.key_heads:
            raise InputError(
                f"model {self.name}: heads = {self.heads} does not divide into kv_heads = {self.kv_heads}; "
                f"nearest that does: kv_heads = {_nearest_divisor(self.heads, self.key_heads)}"
            )
        if self.experts is not None:
            self._refuse_experts(self.experts)
        if self.full_every is not None and self.window is None:
            raise InputError(
                f"model {self.name}: full_every = {self.full_every} of layers with a window; missing: window"
            )
        rotated = self.rope_features or self.head_features
        if self.positions == "rotary" and rotated % 2:
            raise InputError(
                f'model {self.name}: positions = "rotary" rotates pairs of features, got {rotated} of a '
                f"head; allowed: hidden / heads that is even"
            )
        self._refuse_latents()
        if self.qk_norm and (self.positions != "rotary" or self.is_latent):
            raise InputError(
                f"model {self.name}: qk_norm = true: norms of heads that are not rotated, or that come from a latent, "
                'are not modelled; allowed: positions = "rotary" without kv_rank'
            )

    def _refuse_latents(self) -> None:
        """Raise InputError for incomplete sizes of latent attention, or for what it has no place for."""
        parts = {"nope_features": self.nope_features, "rope_features": self.rope_features}
        parts["value_features"] = self.value_features
        if self.kv_rank is None:
            alone = next((key for key, size in {"q_rank": self.q_rank, **parts}.items() if size is not None), None)
            if alone is not None:
                raise InputError(f"model {self.name}: {alone} belongs to latent attention; missing: kv_rank")
            return
        lacking = [key for key, size in parts.items() if size is None]
        if lacking:
            raise InputError(
                f"model {self.name}: kv_rank = {self.kv_rank} of latent attention; missing: {', '.join(lacking)}"
            )
        for key, wrong, right in (
            ("kv_heads", self.kv_heads not in (None, self.heads), "heads"),
            ("head_dim", self.head_dim is not None, "nope_features + rope_features"),
            ("positions", self.positions != "rotary", '"rotary"'),
        ):
            if wrong:
                raise InputError(f"model {self.name}: {key} of a model with kv_rank = {self.kv_rank}; allowed: {right}")

    @property
    def is_latent(self) -> bool:
        """True if keys and values come from a latent (multi-head latent attention)."""
        return self.kv_rank is not None

    def _refuse_experts(self, experts: int) -> None:
        """Raise InputError for experts that the graph cannot have."""
        if not 1 <= self.experts_per_token <= experts:
            raise InputError(
                f"model {self.name}: experts_per_token = {self.experts_per_token}; allowed: 1 to experts = {experts}"
            )
        if not 0 <= self.dense_layers < self.num_layers:
            raise InputError(
                f"model {self.name}: dense_layers = {self.dense_layers}; allowed: 0 to {self.num_layers - 1}, so that "
                "a layer has experts"
            )
        if not 1 <= self.expert_every <= self.num_layers - self.dense_layers:
            raise InputError(
                f"model {self.name}: expert_every = {self.expert_every}; allowed: 1 to "
                f"{self.num_layers - self.dense_layers}, so that a layer has experts"
            )
        if self.capacity is not None and not self.capacity >= 1:
            raise InputError(f"model {self.name}: capacity = {self.capacity:g}; allowed: 1 or more")
        self._refuse_groups(experts)
        if self.expert_skew != 1.0 and not (self.expert_skew > 1.0 and self.capacity is None):
            raise InputError(
                f"model {self.name}: expert_skew = {self.expert_skew:g}; allowed: 1 or more, without capacity"
            )
        for key, wrong, right in (
            ("residual", self.residual == "parallel", '"sequential"'),
            ("dropout", self.dropout, "false"),
        ):
            if wrong:
                raise InputError(f"model {self.name}: {key} of a model with experts; allowed: {right}")

    def _refuse_groups(self, experts: int) -> None:
        """Raise InputError for groups of experts that are unequal, or too small for the choices of a position."""
        if experts % self.expert_groups:
            raise InputError(
                f"model {self.name}: experts = {experts} does not divide into expert_groups = {self.expert_groups}; "
                f"nearest that does: expert_groups = {_nearest_divisor(experts, self.expert_groups)}"
            )
        least = -(-self.experts_per_token * self.expert_groups // experts)
        if not least <= self.groups_per_token <= self.expert_groups:
            raise InputError(
                f"model {self.name}: groups_per_token = {self.groups_per_token}; allowed: {least} to "
                f"expert_groups = {self.expert_groups}"
            )

    @property
    def routing(self) -> Routing | None:
        """The choice of experts by positions; None for a dense model."""
        if self.experts is None:
            return None
        return Routing(self.experts, self.experts_per_token, self.expert_groups, self.groups_per_token)

    @property
    def num_experts(self) -> int:
        """Number of experts of a layer; 0 for a dense model."""
        return self.experts or 0

    def has_experts(self, layer: int) -> bool:
        """Return whether a layer, counted from 0, has experts rather than an MLP."""
        after = layer - self.dense_layers + 1
        return self.experts is not None and after > 0 and after % self.expert_every == 0

    @property
    def num_expert_layers(self) -> int:
        """Number of layers that have experts."""
        return sum(map(self.has_experts, range(self.num_layers)))

    def window_of(self, layer: int) -> int | None:
        """Return the largest number of positions that a position attends to in a layer, counted from 0; None: all."""
        is_full = self.full_every is not None and (layer + 1) % self.full_every == 0
        return None if is_full or self.window is None or self.window >= self.sequence else self.window

    def pairs(self, window: int | None) -> int:
        """Return the number of pairs of positions of a sequence that fused attention multiplies: all s², or of causal
        attention s (s + 1) / 2, fewer where a position attends to a `window`."""
        length = self.sequence
        if not self.causal:
            return length * length
        left = 0 if window is None else length - window  # positions that a window keeps from the first ones
        return (length * (length + 1) - left * (left + 1)) // 2

    @property
    def expert_features(self) -> int:
        """Feed-forward features of one expert."""
        return self.feed_forward if self.expert_ffn is None else self.expert_ffn

    @property
    def routed_rows(self) -> tuple[int, int]:
        """(blocks of experts, rows of a sample in each block): the rows of a sample, one per position and choice, fall
        to as many equal blocks of experts as divide both rows and experts."""
        rows = self.sequence * self.experts_per_token
        blocks = math.gcd(rows, self.num_experts)
        return blocks, math.ceil(rows // blocks * (self.capacity or self.expert_skew))

    @property
    def head_features(self) -> int:
        """Features of a head in queries and keys."""
        if self.is_latent:
            return (self.nope_features or 0) + (self.rope_features or 0)
        return self.hidden // self.heads if self.head_dim is None else self.head_dim

    @property
    def value_head_features(self) -> int:
        """Features of a head in values."""
        return self.head_features if self.value_features is None else self.value_features

    @property
    def context_features(self) -> int:
        """Features of all heads of one position after attention."""
        return self.heads * self.value_head_features

    @property
    def query_features(self) -> int:
        """Features of all query heads of one position together."""
        return self.heads * self.head_features

    @property
    def key_heads(self) -> int:
        """Number of key heads, which is also the number of value heads."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def key_features(self) -> int:
        """Features of all key heads of one position together."""
        return self.key_heads * self.head_features

    @property
    def attention_matrices(self) -> int:
        """Elements of the weight matrices of a layer's attention: h (q + k + v) of queries, keys and values and h c of
        the output projection, with the features of all heads; where they come from latents, those of the projections
        down to latents and up from them."""
        h, queries, out = self.hidden, self.query_features, self.context_features * self.hidden
        if self.kv_rank is None:
            return h * (queries + 2 * self.key_features) + out
        rope, q_rank = self.rope_features or 0, self.q_rank
        of_queries = h * queries if q_rank is None else (h + queries) * q_rank
        up = queries - self.heads * rope + self.context_features
        return of_queries + h * (self.kv_rank + rope) + self.kv_rank * up + out

    @property
    def attention_vectors(self) -> int:
        """Elements of the biases of a layer's attention, and of its norms of latents or of heads."""
        each = 2 if self.norms_have_biases else 1
        dense = self.hidden if self.biases else 0
        if self.kv_rank is None:
            joint = self.query_features + 2 * self.key_features if self.has_qkv_biases else 0
            return dense + joint + (2 * self.head_features if self.qk_norm else 0)
        ranks, rope = (self.q_rank or 0) + self.kv_rank, self.rope_features or 0
        made = ranks + rope + 2 * self.query_features - self.heads * rope + self.context_features
        return dense + each * ranks + (made if self.has_qkv_biases else 0)

    @property
    def feed_forward(self) -> int:
        """Feed-forward features of the MLP."""
        return 4 * self.hidden if self.ffn_hidden is None else self.ffn_hidden

    @property
    def padded_vocabulary(self) -> int:
        """Rows of the tables of embedding and head: the vocabulary, padded."""
        return -(-self.vocabulary // self.vocabulary_multiple) * self.vocabulary_multiple

    @property
    def has_qkv_biases(self) -> bool:
        return self.biases if self.qkv_biases is None else self.qkv_biases

    @property
    def norms_have_biases(self) -> bool:
        return self.norm == "layernorm" and self.biases


def _nearest_divisor(number: int, wanted: int) -> int:
    return min((d for d in range(1, number + 1) if number % d == 0), key=lambda d: (abs(d - wanted), d))
