"""Architecture of a decoder GPT: its sizes, and its differences from the default architecture."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from simfrontier.base.errors import InputError
from simfrontier.core.program import Routing
from simfrontier.core.workload.adapters import MODULES, LoraPart
from simfrontier.core.workload.attention_architecture import AttentionArchitecture, nearest_divisor

Residual = Literal["parallel", "sequential"]
Router = Literal["softmax", "sigmoid"]
Multiple = int  # of which a size is made one: no size itself
Count = int  # of experts: no size that every model has


@dataclass(frozen=True, slots=True, kw_only=True)
class GptArchitecture(AttentionArchitecture):
    """Architecture of a decoder GPT, with the sizes and the traits of attention of its base class. The default values
    describe GPT-NeoX without position embeddings.

    residual      parallel: attention and MLP read the same residual stream (GPT-J, GPT-NeoX-20B); sequential: the MLP
                  follows the attention
    tied          the head uses the embedding's table
    ffn_hidden    features of the MLP (None: 4 × hidden)
    gated         silu(gate) · up instead of GELU, with gate and up of ffn_hidden features each, from one matrix product
                  (SwiGLU, arXiv 2002.05202)
    embedding_norm      a norm between embedding and layers (BLOOM)
    dropout             in three places of a layer, as in Megatron-LM: on the probabilities of plain attention, and on
                        the outputs of attention and of the MLP; each stores a mask of one byte per element
    experts       number of experts of a layer, in place of its MLP (None: the model is dense); `experts_per_token` of
                  them compute each position, with `expert_ffn` features (None: ffn_hidden), and shared experts with
                  `shared_ffn` features together compute all positions
    dense_layers  number of the first layers that have an MLP instead of experts; `expert_every`: of the layers after
                  them each such one has experts, beginning with the last of the first so many
    capacity      rows that an expert takes of a sample, relative to their mean; further rows are dropped, missing ones
                  are padded (None: dropless, and balanced)
    expert_clamp  experts clamp gate and up before they bend them, as GPT-OSS's do (`gate · sigmoid(1.702 gate) ·
                  (up + 1)` of at most 7); their biases, which no number of parameters has, come with it
    expert_groups equal groups of experts, of which the choices of a position fall into `groups_per_token` at most
    mtp_layers    depths of multi-token prediction (DeepSeek-V3, arXiv 2412.19437): each predicts one token further,
                  with a layer of the kind of the last one, and the embedding and the head of the model
    expert_skew   rows of the most loaded rank, relative to their mean: every rank is taken to have as many, since all
                  wait for it
    router        how scores of experts become weights: softmax or sigmoid of the scores of those chosen
    lora_rank     rank of adapters (LoRA) beside the linear modules of the parts `lora_of` (None: all) of a layer; all
                  other weights are frozen (None: all weights are trained)
    vocabulary_multiple the vocabulary is padded to a multiple of this number in the tables of embedding and head
                        (Megatron-LM's make-vocab-size-divisible-by × tensor parallelism)
    """

    residual: Residual = "parallel"
    tied: bool = False
    ffn_hidden: int | None = None
    gated: bool = False
    embedding_norm: bool = False
    vocabulary_multiple: Multiple = 1
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
    lora_rank: int | None = None
    lora_of: tuple[LoraPart, ...] | None = None
    mtp_layers: Count = 0
    expert_clamp: bool = False

    def __post_init__(self) -> None:
        AttentionArchitecture.__post_init__(self)
        if self.lora_of is not None and (self.lora_rank is None or not self.lora_of):
            text = "missing: lora_rank" if self.lora_of else f"allowed: some of {', '.join(MODULES)}"
            raise InputError(f"model {self.name}: lora_of = {[*self.lora_of]}; {text}")
        for key, wrong in (
            ("positions", self.positions == "learned"),
            ("embedding_norm", self.embedding_norm),
            ("lora_rank", self.lora_rank is not None),
        ):
            if self.mtp_layers and wrong:
                raise InputError(
                    f"model {self.name}: {key} of a model with mtp_layers = {self.mtp_layers}; allowed: without"
                )
        if self.experts is not None:
            self._refuse_experts(self.experts)

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
            ("expert_clamp", self.expert_clamp and not self.gated, "gated = true"),
        ):
            if wrong:
                raise InputError(f"model {self.name}: {key} of a model with experts; allowed: {right}")

    def _refuse_groups(self, experts: int) -> None:
        """Raise InputError for groups of experts that are unequal, or too small for the choices of a position."""
        if experts % self.expert_groups:
            raise InputError(
                f"model {self.name}: experts = {experts} does not divide into expert_groups = {self.expert_groups}; "
                f"nearest that does: expert_groups = {nearest_divisor(experts, self.expert_groups)}"
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

    @property
    def num_blocks(self) -> int:
        """Number of layers, with those of multi-token prediction, which follow the others."""
        return self.num_layers + self.mtp_layers

    def kind_of(self, block: int) -> tuple[bool, int | None]:
        """Return (whether it has experts, window of attention) of a layer, or of one of multi-token prediction."""
        layer = min(block, self.num_layers - 1)
        return self.has_experts(layer), self.window_of(layer)

    def has_experts(self, layer: int) -> bool:
        """Return whether a layer, counted from 0, has experts rather than an MLP."""
        after = layer - self.dense_layers + 1
        return self.experts is not None and after > 0 and after % self.expert_every == 0

    @property
    def num_expert_layers(self) -> int:
        """Number of layers that have experts, with those of multi-token prediction."""
        return sum(self.kind_of(block)[0] for block in range(self.num_blocks))

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

    def adapter_elements(self, experts: int) -> int:
        """Return the elements of the adapters of all layers, with so many experts: of every module, the rank times its
        inputs and outputs."""
        if self.lora_rank is None:
            return 0
        h, rise, sparse = self.hidden, 2 if self.gated else 1, self.num_expert_layers

        def of_mlp(features: int) -> int:
            return 2 * h + (rise + 1) * features if features else 0

        dense = self.num_layers - sparse
        sides = {
            "qkv": self.num_layers * self.qkv_sides,
            "proj": self.num_layers * (self.context_features + h),
            "mlp": dense * of_mlp(self.feed_forward)
            + sparse * (experts * of_mlp(self.expert_features) + of_mlp(self.shared_ffn)),
        }
        return self.lora_rank * sum(sides[part] for part in self.lora_of or MODULES)

    @property
    def feed_forward(self) -> int:
        """Feed-forward features of the MLP."""
        return 4 * self.hidden if self.ffn_hidden is None else self.ffn_hidden

    @property
    def padded_vocabulary(self) -> int:
        """Rows of the tables of embedding and head: the vocabulary, padded."""
        return -(-self.vocabulary // self.vocabulary_multiple) * self.vocabulary_multiple
