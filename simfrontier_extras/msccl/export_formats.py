"""The format `msccl` of `simfrontier export`: the distinct collectives of a schedule as algorithm files, each
evaluated before it is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Final

from simfrontier.answers.study import ExportFormat
from simfrontier.base.errors import InputError
from simfrontier.base.wholefile import write_whole
from simfrontier.core.collectives import Recipe, element_bytes, lower, messages_of
from simfrontier.core.cost import Pricing
from simfrontier.core.engine import SimulatedStep, recipes_of
from simfrontier.core.program import Collective, CollectiveKind
from simfrontier.inputs.scenario import Scenario
from simfrontier_extras.msccl.evaluate import verdict
from simfrontier_extras.msccl.from_lowered import algo_of
from simfrontier_extras.msccl.program import COLL, Algo, Gpu, xml_of
from simfrontier_extras.msccl.rccl import MAX_THREAD_BLOCKS, faults, refusals

MOST_GPUS: Final = 64  # rings of more have more steps than RCCL takes, and the rest takes minutes to evaluate


@dataclass(slots=True)
class Calls:
    """Calls of a schedule that groups execute in the same way: (bytes of the message, bytes of an element) of each
    call."""

    kind: CollectiveKind
    recipe: Recipe
    sizes: set[tuple[int, int]] = field(default_factory=set)

    @property
    def said(self) -> str:
        return f"{COLL[self.kind]} of {self.recipe.size} by {self.recipe.algorithm}"

    def fitting(self, algo: Algo) -> int:
        """Return the number of message sizes for which RCCL can use the algorithm: a rank's number of elements must be
        a multiple of the number of chunks."""
        pieces = 1 if algo.kind == "all_reduce" else algo.ngpus
        return sum(num_bytes // (each * pieces) % algo.nchunksperloop == 0 for num_bytes, each in self.sizes)


def write_collectives(scenario: Scenario, plan: str, step: SimulatedStep, folder: Path) -> str:
    """Write a file for every distinct collective that MSCCL can express; return a line for each file and for each
    omitted collective, with the reason. Raises InputError if no file could be written."""
    calls, left_out = _calls(step.pricing)
    made: dict[tuple[Gpu, ...], tuple[Calls, Algo]] = {}
    for each in calls:
        algo = _fitting_algo(each)
        if isinstance(algo, str):
            left_out.append(f"{each.said}: {algo}")
        elif algo.gpu in made:  # what differs in them makes no difference
            made[algo.gpu][0].sizes.update(each.sizes)
        else:
            made[algo.gpu] = each, algo
    if not made:
        why = left_out[0] if left_out else "it has no collective"
        raise InputError(f"plan {plan}: nothing to say in MSCCL: {why}", where="--format msccl")
    written = [(each, _named(plan, number, each, algo)) for number, (each, algo) in enumerate(made.values())]
    for _, algo in written:
        write_whole(folder / f"{algo.name}.xml", xml_of(algo))
    lines = [f"{len(written)} algorithm file{'s' if len(written) > 1 else ''}, evaluated: right"]
    lines += [f"  {algo.name}.xml: {_said(each, algo)}" for each, algo in written]
    lines += [f"  left out: {text}" for text in left_out]
    return "\n".join([*lines, *(f"  {text}" for text in _alike([algo for _, algo in written]))])


def _named(plan: str, number: int, calls: Calls, algo: Algo) -> Algo:
    """Return the algorithm with the name of its file, restricted to the message sizes of the plan."""
    sizes = [num_bytes for num_bytes, _ in calls.sizes]
    name = f"{plan}-{number}-{algo.coll}-{algo.ngpus}-{calls.recipe.algorithm}"
    return algo.model_copy(update={"name": name, "minBytes": min(sizes), "maxBytes": max(sizes)})


def _calls(pricing: Pricing) -> tuple[list[Calls], list[str]]:
    """Return the schedule's collectives by kind and recipe, in order of appearance, and descriptions of those without a
    recipe."""
    found: dict[tuple[CollectiveKind, Recipe], Calls] = {}
    left_out: dict[str, None] = {}
    for op in pricing.schedule.ops:
        if not isinstance(op, Collective):
            continue
        size = pricing.schedule.mesh.size(op.axes)
        try:
            recipes = _recipes(op, pricing, size)
        except InputError as error:
            left_out[f"{COLL[op.wire_kind]} of {size}: {error}"] = None
            continue
        for recipe in recipes:
            calls = found.setdefault((op.wire_kind, recipe), Calls(op.wire_kind, recipe))
            messages = messages_of(op, pricing.schedule.tensors, pricing.schedule.mesh)
            calls.sizes.update((message.num_bytes, element_bytes(op, message)) for message in messages)
    return list(found.values()), list(left_out)


def _recipes(op: Collective, pricing: Pricing, size: int) -> Iterable[Recipe]:
    """Return the different ways in which groups execute an op, without slices: RCCL cuts every chunk into slices
    itself. Raises InputError for an op that no file can express."""
    if op.per_hop:
        raise InputError("each hop codes what it sends; MSCCL's steps send what is in memory")
    if size > MOST_GPUS:
        raise InputError(f"got {size} GPUs, allowed: up to {MOST_GPUS}")
    return dict.fromkeys(replace(each, slices=1, least_elements=1) for each in recipes_of(op, pricing))


def _fitting_algo(calls: Calls) -> Algo | str:
    """Return the algorithm with as many of its channels as RCCL accepts, after evaluation; or the reason why there is
    none."""
    why = ""
    for recipe in _fewer_channels(calls.recipe):
        try:
            algo = algo_of(lower(calls.kind, recipe), calls.recipe.algorithm)
        except InputError as error:  # more transfers than are made
            why = str(error)
            continue
        refused = [*faults(algo), *refusals(algo), algo.too_large()]
        if not any(refused):
            found = verdict(algo)
            assert found.is_right, f"{calls.said}: {found.findings[0]}"
            return algo
        why = refused[0]
        if max(len(gpu.tb) for gpu in algo.gpu) <= MAX_THREAD_BLOCKS and not algo.too_large():
            break  # fewer channels do not help
    return why


def _fewer_channels(recipe: Recipe) -> Iterator[Recipe]:
    num = len(recipe.orders)
    while num:
        yield replace(recipe, orders=recipe.orders[:num])
        num //= 2


def _said(calls: Calls, algo: Algo) -> str:
    blocks = max(len(gpu.tb) for gpu in algo.gpu)
    steps = max(len(block.step) for block in algo.blocks)
    size, fits = len(calls.sizes), calls.fitting(algo)
    sizes = "its size" if size == fits == 1 else f"{fits} of {size} sizes"
    return (
        f"{calls.said}, channels: {algo.nchannels}, thread blocks on a GPU: {blocks}, steps in one: {steps}; "
        f"for {sizes} (a rank's elements must be a multiple of {algo.nchunksperloop})"
    )


def _alike(written: list[Algo]) -> Iterator[str]:
    """Yield a line on files that RCCL cannot distinguish: it selects by collective, number of GPUs and size only."""
    for one, other in combinations(written, 2):
        overlap = (one.minBytes or 0) <= (other.maxBytes or 0) and (other.minBytes or 0) <= (one.maxBytes or 0)
        if (one.coll, one.ngpus) == (other.coll, other.ngpus) and overlap:
            yield f"{one.name}, {other.name}: for the same GPUs and sizes; RCCL takes the one that it finds first"


ADDS = (
    ExportFormat(
        name="msccl",
        sentence="MSCCL algorithm files of the plan's collectives, which RCCL executes; each is evaluated first",
        write=write_collectives,
    ),
)
