"""The shape of a decoder GPT: its sizes, in what it differs from the usual one, and what follows for its counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from simfrontier.errors import InputError
from simfrontier.records import dataclass
from simfrontier.workload.shape import OfAnyPlan
from simfrontier.workload.sizes import refuse_sizes

if TYPE_CHECKING:
    from simfrontier.workload.gpt_model import Attention
    from simfrontier.workload.graph import Checkpointing, Workload
    from simfrontier.workload.graph_builder import Softmax

Residual = Literal["parallel", "sequential"]
Norm = Literal["layernorm", "rmsnorm"]
Positions = Literal["none", "learned", "rotary", "alibi"]
Multiple = int  # of which a size is made one: no size itself


@dataclass(frozen=True, slots=True, kw_only=True)
class GptShape(OfAnyPlan):
    """Shape of a decoder GPT; fields with a default say where it differs from a GPT-NeoX without positions.

    `residual`: attention and MLP side by side on the residual stream (`parallel`, as GPT-J and GPT-NeoX-20B), or the
    MLP after the attention (`sequential`). `tied`: the head reads the embedding's table.

    ffn_hidden    features of the MLP (None: 4 × hidden); gated: silu(gate) · up instead of GELU, gate and up of that
                  many features each, as one product (SwiGLU, arXiv 2002.05202)
    kv_heads      heads of keys and values, each shared by as many queries' heads (GQA, arXiv 2305.13245; None: heads)
    norm          rmsnorm has a scale alone and takes no mean (arXiv 1910.07467)
    biases        False: neither linear modules nor norms have any (MPT's no_bias, Llama)
    positions     learned: a table sequence × hidden added to the embedding; rotary: queries and keys rotated in memory
                  (arXiv 2104.09864, all features of a head); alibi: a slope added to scores (arXiv 2108.12409), which
                  takes no op of its own; none: what is left out costs nothing
    embedding_norm      a norm between embedding and layers (BLOOM)
    causal              fused attention multiplies only s (s + 1) / 2 of the s² pairs of positions
    dropout             in three places, as Megatron-LM has it in a layer: on the probabilities of plain attention, on
                        what attention gives to the stream, and on what the MLP does; each keeps a mask of a byte an
                        element
    vocabulary_multiple the tables have the vocabulary rounded up to a multiple of it (Megatron-LM's
                        make-vocab-size-divisible-by × tensor parallelism)
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
    norm: Norm = "layernorm"
    biases: bool = True
    positions: Positions = "none"
    embedding_norm: bool = False
    causal: bool = False
    vocabulary_multiple: Multiple = 1
    dropout: bool = False

    def __post_init__(self) -> None:
        refuse_sizes(self.name, self)
        for key in ("ffn_hidden", "kv_heads", "vocabulary_multiple"):
            value = getattr(self, key)
            if value is not None and value < 1:
                raise InputError(f"model {self.name}: {key} = {value}; allowed: 1 or more")
        if self.hidden % self.heads:
            raise InputError(
                f"model {self.name}: hidden = {self.hidden} does not divide into heads = {self.heads}; "
                f"nearest that does: heads = {_nearest_divisor(self.hidden, self.heads)}"
            )
        if self.heads % self.key_heads:
            raise InputError(
                f"model {self.name}: heads = {self.heads} does not divide into kv_heads = {self.kv_heads}; "
                f"nearest that does: kv_heads = {_nearest_divisor(self.heads, self.key_heads)}"
            )
        if self.positions == "rotary" and self.head_features % 2:
            raise InputError(
                f'model {self.name}: positions = "rotary" rotates pairs of features, got {self.head_features} of a '
                f"head; allowed: hidden / heads that is even"
            )

    @property
    def head_features(self) -> int:
        return self.hidden // self.heads

    @property
    def key_heads(self) -> int:
        """Heads of keys, and of values."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def key_features(self) -> int:
        """Features of all keys of a position, and of all values."""
        return self.key_heads * self.head_features

    @property
    def feed_forward(self) -> int:
        """Features of the MLP."""
        return 4 * self.hidden if self.ffn_hidden is None else self.ffn_hidden

    @property
    def padded_vocabulary(self) -> int:
        """Rows of the embedding's table and of the head's."""
        return -(-self.vocabulary // self.vocabulary_multiple) * self.vocabulary_multiple

    @property
    def norms_have_biases(self) -> bool:
        return self.norm == "layernorm" and self.biases

    @property
    def _rise(self) -> int:
        """Features that the MLP's first product makes."""
        return 2 * self.feed_forward if self.gated else self.feed_forward

    @property
    def _matrices_of_layer(self) -> int:
        """h (h + 2k) of query, key and value, h² of the projection, 2 h f of the MLP, or 3 h f where it is gated."""
        h = self.hidden
        return h * (h + 2 * self.key_features) + h * h + h * (self._rise + self.feed_forward)

    @property
    def num_parameters(self) -> int:
        """With k = kv_heads · h / heads, f = ffn_hidden, r = f (2f where the MLP is gated), V padded, and norms of
        n = h (2h: layernorm with biases) parameters:

            ψ = L (2h² + 2hk + h (r + f) + [biases] (3h + 2k + r) + 2n) + n + Vh (twice unless tied)
                + [learned positions] s h + [embedding norm] n

        which is L (12h² + 13h) + 2h + 2Vh for the defaults.
        """
        h, norm = self.hidden, (2 if self.norms_have_biases else 1) * self.hidden
        biases = 3 * h + 2 * self.key_features + self._rise if self.biases else 0
        ends = (1 if self.tied else 2) * self.padded_vocabulary * h + norm
        ends += self.sequence * h if self.positions == "learned" else 0
        ends += norm if self.embedding_norm else 0
        return self.num_layers * (self._matrices_of_layer + biases + 2 * norm) + ends

    @property
    def model_flops_per_token(self) -> int:
        """Useful operations of a trained token, forward and backward, none recomputed: 6 for each element of a matrix
        that it is multiplied with (layers and head; the embedding is looked up), and 6 L h s' for each of the two
        products of attention, where s' = s positions attended to; where `causal` only those before, (s + 1) / 2 on
        average, hence together 6 L h (s + 1).

        All s positions are what PaLM's appendix B (arXiv 2204.02311) and GPT-NeoX count, whatever is computed; the half
        is what FlashAttention-2 counts (arXiv 2307.08691).
        """
        products = self.num_layers * self._matrices_of_layer + self.padded_vocabulary * self.hidden
        positions = self.sequence + 1 if self.causal else 2 * self.sequence
        return 6 * products + 6 * self.num_layers * self.hidden * positions

    @property
    def sample(self) -> str:
        return f"sequences of {self.sequence:,} tokens"

    def with_settings(self, settings: Mapping[str, Any]) -> GptShape:
        return replace(self, **settings)

    def workload(
        self, batch: int, checkpointing: Checkpointing, precision: str, attention: Attention, softmax: Softmax
    ) -> Workload:
        from simfrontier.workload.gpt_model import gpt

        return gpt(self, batch, checkpointing, precision=precision, attention=attention, softmax=softmax)

    def step_flops(self, samples: float, recomputed: bool) -> float:
        """`model_flops_per_token` of every token; recomputed: and the layers' forward, a third of theirs, once more."""
        tokens = samples * self.sequence
        model = float(tokens * self.model_flops_per_token)
        head = 6.0 * tokens * self.padded_vocabulary * self.hidden
        return model + (model - head) / 3.0 if recomputed else model


def _nearest_divisor(number: int, wanted: int) -> int:
    return min((d for d in range(1, number + 1) if number % d == 0), key=lambda d: (abs(d - wanted), d))
