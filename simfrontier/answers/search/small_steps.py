"""Small schedules of plans, built once for each structure, and the times and the memory of their steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from simfrontier.answers.search.equal_ops import EqualOps, of_equals
from simfrontier.answers.search.hidden_calls import hidden_kind, without_hidden
from simfrontier.answers.search.small_forms import SmallForm, SmallForms, graph_of, small_form
from simfrontier.answers.search.small_memory import held_bytes, peak_in_time, peaks_in_order, read_by_products
from simfrontier.core.cost import Prices
from simfrontier.core.engine import passed
from simfrontier.core.machine import Machine
from simfrontier.core.plan import STREAM, build, structure_of
from simfrontier.core.program import HOST, Collective, Exchange, Op, Schedule, is_product
from simfrontier.inputs.scenario import Case

FEW_LAYERS = 2
ASIDE = ("gather", "reduce")  # lanes of weights and gradients
PASSING = ("gathered", "gradient", "encoded")  # roles of weights and gradients on their way
Line = Callable[[Callable[["SmallStep"], float]], float]  # a quantity of small steps, extrapolated to some layers


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallStep:
    """One small step without contention: seconds at the end of each micro-batch (`micro_s`) and of the step (`step_s`).

    `floor_s`: the same end times if there were only the model's kernels and the collectives inside layers that they
    wait for, each with its lower bound (`Prices.floor_s`); these do not depend on where a plan keeps its weights.
    `embedding_s`, `head_s`: the sums of these lower bounds over the embedding and the head, in one micro-batch.
    `kernels_s`, `host_s`: seconds that the compute lane and the host are busy until the end of each micro-batch, and of
    the step; `aside_s`: those of collectives of weights and gradients on other lanes (those in pieces beside products
    are moved by copy engines: Transformer Engine's ring exchange, torch's asynchronous tensor parallelism).
    `products_s`: seconds of products of weights, per micro-batch.

    Bytes on a rank: `persistent_bytes`: tensors that live for the whole step; `peak_bytes`: peak of buffers over time,
    of which `passing_bytes` are weights and gradients in flight; in program order, the peaks of buffers during layers
    (`layers_bytes`), during the head (`head_bytes`) and at the end of the step (`end_bytes`); `products_bytes`: the
    activations that products for weight gradients of layers read in one micro-batch.
    """

    micro_s: tuple[float, ...]
    step_s: float
    floor_s: tuple[float, ...]
    embedding_s: float
    head_s: float
    kernels_s: tuple[float, ...]
    host_s: tuple[float, ...]
    products_s: float
    aside_s: tuple[float, ...]
    persistent_bytes: int
    peak_bytes: float
    passing_bytes: float
    layers_bytes: int
    head_bytes: int
    end_bytes: int
    products_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallSteps:
    """Small steps of a plan: with two layers of the model's most frequent kind (`few`), and with one more layer of
    each kind (`more`, the most frequent first); multi-token prediction counts as a part of the head. The number of
    micro-batches is that of the full step, at most three.
    `kinds`: the kind of each layer of the model, as an index into `more`. Bytes on a rank: persistent tensors of the
    embedding and the head (`ends_bytes`), and activations passed between layers (`stream_bytes`).
    """

    few: SmallStep
    more: tuple[SmallStep, ...]
    kinds: tuple[int, ...]
    ends_bytes: tuple[int, int]
    stream_bytes: int

    def line(self, kinds: Iterable[int]) -> Line:
        """Return the extrapolation of quantities of a small step to layers of these kinds: each adds as much as one
        more of its kind.
        """
        count = Counter(kinds)
        count[0] -= FEW_LAYERS

        def at(of: Callable[[SmallStep], float]) -> float:
            few = of(self.few)
            return few + sum([count[kind] * (of(small) - few) for kind, small in enumerate(self.more)])

        return at


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PricedSchedule:
    """A small schedule at the sizes of a case. By number of the op, its seconds (`took`) and, for those inside layers,
    their lower bounds (`floor`); `size`: bytes of each tensor on a rank, 0 for those that share the memory of others.
    """

    schedule: Schedule
    took: list[float]
    floor: list[float]
    size: Mapping[str, int]


@dataclass
class SmallSchedules:
    """Builds small schedules, once for each structure of plans, and times them for cases."""

    prices: Prices
    known: dict[Hashable, SmallForms] = field(default_factory=dict)

    def reprice(self, prices: Prices, machine: Machine) -> None:
        """Use other prices from now on, for a variant of the machine with the same links."""
        prices.machine = machine
        self.prices = prices

    def pair(self, case: Case) -> SmallSteps:
        """Return the small steps of a case. Raises InputError if one of its data movements cannot be built."""
        num_micro = 1
        if case.stages > 1 or case.grad_accum > 1:
            num_micro = 3 if case.engine.step_reduction == "overlap" else 2  # then the last is like those before it
        layers = case.workload_of(case.shape, 1).layers[: case.shape.num_layers]
        kinds = [kind for kind, _ in Counter(layers).most_common()]
        small = self._forms(case, num_micro, [layers.index(kind) for kind in kinds])
        priced = self._priced(small, small.schedules(case.mesh, case.micro_batch * case.batch_ranks))
        few, *more = (_small(form, each, self.prices, case) for form, each in zip(small.forms, priced, strict=True))
        size = priced[1].size
        embedding, head = (sum([size[name] for name in names]) for names in small.forms[1].ends)
        return SmallSteps(
            few=few,
            more=tuple(more),
            kinds=tuple([kinds.index(layer) for layer in layers]),
            ends_bytes=(embedding, head),
            stream_bytes=size.get(STREAM, 0),
        )

    def _priced(self, small: SmallForms, schedules: Sequence[Schedule]) -> list[PricedSchedule]:
        """Return the schedules of the forms, rebound to the sizes of a case, with the times of their ops."""
        prices, took, floors, sizes = self.prices, dict[int, float](), dict[int, float](), dict[int, int]()
        out = []
        each = zip(small.forms, schedules, small.equals.ops, small.equals.tensors, strict=True)
        for form, schedule, ops, tensors in each:

            def floor_s(op: Op, form: SmallForm = form, schedule: Schedule = schedule) -> float:
                if isinstance(op, Exchange) or not form.is_inside[op.number]:
                    return 0.0
                return prices.floor_s(op, schedule)

            own = of_equals(tensors, schedule.tensors.values(), partial(held_bytes, mesh=schedule.mesh), sizes)
            out.append(
                PricedSchedule(
                    schedule=schedule,
                    took=of_equals(ops, schedule.ops, partial(prices.seconds, schedule=schedule), took),
                    floor=of_equals(ops, schedule.ops, floor_s, floors),
                    size=dict(zip(schedule.tensors, own, strict=True)),
                )
            )
        return out

    def _forms(self, case: Case, num_micro: int, kinds: list[int]) -> SmallForms:
        """Return the form with few layers, and those with one more layer of each kind; `kinds` has the number of a
        layer of each kind, the most frequent first."""
        plan, usual = replace(case.plan, pipeline=None), kinds[:1] * FEW_LAYERS
        key = hidden_kind(case), structure_of(graph_of(case, kinds, 1), plan, case.mesh, case.engine, num_micro)
        if key not in self.known:
            works = [
                graph_of(case, layers, case.micro_batch * case.batch_ranks)
                for layers in (usual, *(sorted((*usual, kind)) for kind in kinds))
            ]
            forms = [small_form(build(work, plan, case.mesh, case.engine, num_micro), work, case) for work in works]
            self.known[key] = SmallForms(tuple(forms), EqualOps.of(form.schedule for form in forms))
        return self.known[key]


def _small(form: SmallForm, priced: PricedSchedule, prices: Prices, case: Case) -> SmallStep:
    """Time a small schedule that was rebound to the sizes of a case."""
    schedule, floor, size, ops = priced.schedule, priced.floor, priced.size, form.program.ops
    took = without_hidden(schedule.ops, priced.took, case, prices)
    times = [took[op.number] for op in ops]
    start, end = passed(form.program.before, times)
    _, least = passed(form.chain_before, [floor[number] for number in form.chain])
    layers_bytes, head_bytes, end_bytes = peaks_in_order(form, size)
    of_call: dict[str, float] = {}
    for number, label in zip(form.chain, form.chain_phase, strict=True):
        of_call[label] = of_call.get(label, 0.0) + floor[number]
    passing = {name for name, tensor in schedule.tensors.items() if tensor.role in PASSING}
    peak_bytes, passing_bytes = peak_in_time(form, size, start, end, passing)
    each = list(zip(ops, times, strict=True))

    def so_far(counts: Callable[[Op], bool]) -> tuple[float, ...]:
        """Return the seconds of the ops that count until the end of each micro-batch, and of the step."""
        total = np.cumsum([s if counts(op) else 0.0 for op, s in each]).tolist()
        return (*(total[op] for op in form.micro_ends), total[-1])

    products = sum(s for op, s in each if op.lane == "compute" and is_product(op.kind))
    return SmallStep(
        micro_s=tuple(end[op] for op in form.micro_ends),
        step_s=max(end),
        floor_s=tuple(least[op] for op in form.chain_ends),
        embedding_s=of_call.get("embedding", 0.0) + of_call.get("embedding.backward", 0.0),
        head_s=of_call.get("head", 0.0),
        kernels_s=so_far(lambda op: op.lane == "compute"),
        host_s=so_far(lambda op: op.lane == HOST),
        products_s=products / len(form.micro_ends),
        aside_s=so_far(lambda op: op.lane in ASIDE and isinstance(op, Collective)),
        persistent_bytes=sum(
            size[name] * (form.instances[tensor.weight or tensor.follows or ""] if tensor.per_layer else 1)
            for name, tensor in schedule.tensors.items()
            if tensor.persistent
        ),
        peak_bytes=peak_bytes,
        passing_bytes=passing_bytes,
        layers_bytes=layers_bytes,
        head_bytes=head_bytes,
        end_bytes=end_bytes,
        products_bytes=read_by_products(form, size),
    )
