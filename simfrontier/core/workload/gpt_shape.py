"""Shape of a decoder GPT: its architecture, its numbers of parameters and flops, and its graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from simfrontier.core.workload.gpt_architecture import GptArchitecture
from simfrontier.core.workload.gpt_model import gpt
from simfrontier.core.workload.graph import Attention, Checkpointing, Workload
from simfrontier.core.workload.graph_builder import Softmax
from simfrontier.core.workload.shape import OfAnyPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class GptShape(GptArchitecture, OfAnyPlan):
    """Shape of a decoder GPT; every plan can train it."""

    @property
    def _rise(self) -> int:
        """Output features of the MLP's first matrix product."""
        return 2 * self.feed_forward if self.gated else self.feed_forward

    def _matrices(self, experts: int) -> int:
        """Elements of the weight matrices of all layers, with so many experts: those of attention; of an MLP of f
        features 2 h f, or 3 h f if it is gated; of a router, the experts and the shared ones; and 2 h² of the
        projection before each layer of multi-token prediction."""
        each, sparse = self.hidden * (3 if self.gated else 2), self.num_expert_layers
        of_experts = self.hidden * self.num_experts + each * (experts * self.expert_features + self.shared_ffn)
        dense = self.num_blocks - sparse
        of_layers = self.num_blocks * self.attention_matrices + sparse * of_experts + dense * each * self.feed_forward
        return of_layers + self.mtp_layers * 2 * self.hidden**2

    @property
    def num_active_parameters(self) -> int:
        """Number of parameters with which one token is computed: without those of the experts that it does not
        choose."""
        every, chosen = (
            (self._matrices(n) + self.adapter_elements(n)) for n in (self.num_experts, self.experts_per_token)
        )
        return self.num_parameters - every + chosen

    @property
    def num_parameters(self) -> int:
        """Number of parameters ψ. With A elements of the matrices of attention and B of its vectors, f = ffn_hidden, r
        = f (2f if the MLP is gated), V the padded vocabulary, and norms of n = h (2h: layernorm with biases)
        parameters (with experts, see `_matrices`):

            ψ = L (A + B + h (r + f) + [biases] (h + r) + 2n) + n + Vh (twice unless tied)
                + [learned positions] s h + [embedding norm] n
                + [each depth of multi-token prediction] those of a layer + 2h² + 3n

        which is L (12h² + 13h) + 2h + 2Vh for the default architecture. Adapters (LoRA) come on top.
        """
        h, norm = self.hidden, (2 if self.norms_have_biases else 1) * self.hidden
        of_mlps = (self.num_blocks - self.num_expert_layers) * (h + self._rise) if self.biases else 0
        ends = (1 if self.tied else 2) * self.padded_vocabulary * h + norm
        ends += self.sequence * h if self.positions == "learned" else 0
        ends += norm if self.embedding_norm else 0
        vectors = self.num_blocks * (self.attention_vectors + 2 * norm) + of_mlps + 3 * norm * self.mtp_layers
        return self._matrices(self.num_experts) + self.adapter_elements(self.num_experts) + vectors + ends

    @property
    def model_flops_per_token(self) -> int:
        """Model flops per trained token, forward and backward, without recomputation: 6 for each element of the weight
        matrices (layers and head; the embedding is a look-up), plus 6 L q s' for the first matrix product of attention
        and 6 L c s' for the second, where q are the features of all query heads, c those of all heads after attention
        (usually as many), and s' is the number of positions attended to: s, or with `causal` (s + 1) / 2 on average,
        hence 6 L q (s + 1) for both products together, and fewer in layers with a window. With adapters (LoRA), 4 for
        each element of the frozen matrices, whose own gradients are not computed, and 6 for each of the adapters.

        PaLM's appendix B (arXiv 2204.02311) and GPT-NeoX count all s positions, whatever is computed; FlashAttention-2
        (arXiv 2307.08691) counts the causal half.
        """
        heads = 1 + self.mtp_layers
        products = self._matrices(self.experts_per_token) + heads * self.padded_vocabulary * self.hidden
        windows = Counter(self.kind_of(block)[1] for block in range(self.num_blocks))
        pairs = sum(count * self.pairs(window) for window, count in windows.items())
        per_element, adapters = (6, 0) if self.lora_rank is None else (4, self.adapter_elements(self.experts_per_token))
        products = per_element * products + 6 * adapters
        return products + 6 * (self.query_features + self.context_features) * pairs // self.sequence

    @property
    def sample(self) -> str:
        return f"sequences of {self.sequence:,} tokens"

    def with_settings(self, settings: Mapping[str, Any]) -> GptShape:
        return replace(self, **settings)

    def workload(
        self, batch: int, checkpointing: Checkpointing, precision: str, attention: Attention, softmax: Softmax
    ) -> Workload:
        return gpt(self, batch, checkpointing, precision=precision, attention=attention, softmax=softmax)

    def step_flops(self, samples: float, recomputed: bool) -> float:
        """Return the model flops of all tokens of a step; with `recomputed`, plus the recomputed forward of the layers,
        a third of the layers' flops (half of those of frozen matrices)."""
        tokens = samples * self.sequence
        model = float(tokens * self.model_flops_per_token)
        if not recomputed:
            return model
        head = (6.0 if self.lora_rank is None else 4.0) * tokens * self.padded_vocabulary * self.hidden
        head *= 1 + self.mtp_layers
        frozen = 0.0 if self.lora_rank is None else 4.0 * tokens * self._matrices(self.experts_per_token)
        return model + (model - head + frozen / 2) / 3.0


def neox_flops(shape: GptShape, samples: float, recomputed: bool) -> float:
    """Return the flops of a step as GPT-NeoX counts them: F = 24 f B s L h² (1 + s/(6h) + V/(16 L h)), with f = 4 with
    activation checkpointing (`recomputed`), else 3. The formula assumes an MLP of 4h features and as many key heads as
    query heads.

    Source: EleutherAI/gpt-neox megatron/logging.py. `samples` is B, the sequences of one step over all ranks.
    """
    h, layers, vocabulary, sequence = shape.hidden, shape.num_layers, shape.vocabulary, shape.sequence
    factor = 4 if recomputed else 3
    base = 24 * factor * samples * sequence * layers * h * h
    return base * (1 + sequence / (6 * h) + vocabulary / (16 * layers * h))
