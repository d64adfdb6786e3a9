"""Architecture of a decoder GPT's attention: its sizes, and its differences from the default architecture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from simfrontier.base.errors import InputError

Norm = Literal["layernorm", "rmsnorm"]
Positions = Literal["none", "learned", "rotary", "alibi"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionArchitecture:
    """Sizes of a decoder GPT, and the traits of its attention.

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
    causal              fused attention multiplies only s (s + 1) / 2 of the s² pairs of positions
    window, full_every  positions that a position attends to at most, itself among them, in all layers but each
                        `full_every`-th one (None: in all layers); counted where attention is fused and causal
    """

    name: str
    num_layers: int
    hidden: int
    heads: int
    vocabulary: int
    sequence: int
    source: str
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
    causal: bool = False
    window: int | None = None
    full_every: int | None = None

    def __post_init__(self) -> None:
        if self.head_dim is None and not self.is_latent and self.hidden % self.heads:
            raise InputError(
                f"model {self.name}: hidden = {self.hidden} does not divide into heads = {self.heads}; "
                f"nearest that does: heads = {nearest_divisor(self.hidden, self.heads)}"
            )
        if self.heads % self.key_heads:
            raise InputError(
                f"model {self.name}: heads = {self.heads} does not divide into kv_heads = {self.kv_heads}; "
                f"nearest that does: kv_heads = {nearest_divisor(self.heads, self.key_heads)}"
            )
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
    def qkv_sides(self) -> int:
        """Inputs and outputs, added up, of the linear modules of a layer that make queries, keys and values."""
        h, queries = self.hidden, self.query_features
        if self.kv_rank is None:
            return h + queries + 2 * self.key_features
        rope, q_rank = self.rope_features or 0, self.q_rank
        of_queries = h + queries if q_rank is None else h + 2 * q_rank + queries
        return of_queries + h + 2 * self.kv_rank + rope + queries - self.heads * rope + self.context_features

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
    def has_qkv_biases(self) -> bool:
        return self.biases if self.qkv_biases is None else self.qkv_biases

    @property
    def norms_have_biases(self) -> bool:
        return self.norm == "layernorm" and self.biases


def nearest_divisor(number: int, wanted: int) -> int:
    """Return the divisor of a number that is nearest to `wanted`."""
    return min((d for d in range(1, number + 1) if number % d == 0), key=lambda d: (abs(d - wanted), d))
