"""Architecture of a decoder GPT: its sizes, and its variations on the usual one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from simfrontier.base.errors import InputError

Residual = Literal["parallel", "sequential"]
Norm = Literal["layernorm", "rmsnorm"]
Positions = Literal["none", "learned", "rotary", "alibi"]
Multiple = int  # of which a size is made one: no size itself


@dataclass(frozen=True, slots=True, kw_only=True)
class GptArchitecture:
    """Architecture of a decoder GPT; fields with a default say where it differs from a GPT-NeoX without positions.

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


def _nearest_divisor(number: int, wanted: int) -> int:
    return min((d for d in range(1, number + 1) if number % d == 0), key=lambda d: (abs(d - wanted), d))
