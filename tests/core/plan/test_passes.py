"""Each pass on a tiny model, shown as text before and after (tests/golden/passes; `make golden` rewrites them)."""

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

import pytest

from simfrontier.core.plan import FAMILIES, Engine, make_plan
from simfrontier.core.plan.passes import after_their_gradients, bucket, gather_by_layer, prefetch, reuse, throttle
from simfrontier.core.plan.program import Hook, Item, Move, Program, StreamWait
from simfrontier.core.plan.to_schedule import naive_program, tensors_of
from simfrontier.core.program import is_product
from simfrontier.core.program.ir import Ref
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.workload import MODELS, gpt
from tests.conftest import Golden

MESH = Mesh((("node", 2), ("package", 1), ("gcd", 2)))
ENGINE = Engine(persistence_elements=1000)
Shown = Callable[[Item], bool]


def naive(family: str, grad_accum: int = 1, num_layers: int = 2) -> Program:
    workload = gpt(replace(MODELS["tiny"], num_layers=num_layers), MESH.num_ranks, checkpointing="full")
    plan = make_plan(family, FAMILIES[family][0](family=family), MESH)
    return naive_program(tensors_of(workload, plan, MESH, ENGINE), grad_accum)


def is_fetch(item: Item) -> bool:
    return isinstance(item, Hook) or (isinstance(item, Move) and item.purpose in ("weight_gather", "copy_gather"))


def is_fetch_or_matmul(item: Item) -> bool:
    kind = getattr(item, "kind", "")
    return is_fetch(item) or is_product(kind) or kind == "lookup"


def is_gradient(item: Item) -> bool:
    return isinstance(item, Move | StreamWait) and item.purpose in ("gradient", "step_reduction")


def text_of(program: Program, shown: Shown) -> str:
    """One line for each item that is shown, under the call that it is in."""
    lines = []
    for (label, layer, micro), items in groupby(program.items, key=itemgetter(0)):
        inside = [f"  {line_of(item)}" for _, item in items if shown(item)]
        if inside:
            lines += [f"{label} (layer {layer}, micro-batch {micro})", *inside]
    return "\n".join(lines) + "\n"


def line_of(item: Item) -> str:
    match item:
        case Move():
            arrow = "+→" if item.accumulate else "→"
            token = f", then {name_of(item.token)}" if item.token else ""
            names = f"{', '.join(map(name_of, item.src))} {arrow} {', '.join(map(name_of, item.dst))}"
            return f"{item.purpose} of {item.num_elements} elements: {names}{token}"
        case Hook():
            return f"hook {item.module}" + "".join(f" waits for {name_of(ref)}" for ref in item.waits)
        case StreamWait():
            return f"{item.purpose} waits for {', '.join(map(name_of, item.waits))}"
        case _:
            return f"{item.kind} {item.name}"


def name_of(ref: Ref) -> str:
    return f"{ref.name}({ref.layer},{ref.micro})"


def shown_before_and_after(before: Program, after: Program, shown: Shown) -> str:
    return f"before\n\n{text_of(before, shown)}\nafter\n\n{text_of(after, shown)}"


def gradients(program: Program) -> Program:
    return bucket(program, "gradient", 40_000)


CASES: dict[str, tuple[Callable[[], Program], Callable[[Program], Program], Shown]] = {
    "reuse": (lambda: naive("zero3", num_layers=1), lambda p: reuse(p, 100_000), is_fetch_or_matmul),
    "prefetch": (
        lambda: reuse(naive("zero3"), 60_000),
        lambda p: prefetch(p, replace(ENGINE, prefetch_elements=30_000, live_elements=60_000)),
        is_fetch_or_matmul,
    ),
    "gather_by_layer": (lambda: reuse(naive("zero3"), 20_000), gather_by_layer, is_fetch_or_matmul),
    "bucket": (lambda: naive("zero3", grad_accum=2, num_layers=1), gradients, is_gradient),
    "bucket_one_at_a_time": (
        lambda: naive("zero3", num_layers=1),
        lambda p: bucket(p, "gradient", 40_000, together=False),
        is_gradient,
    ),
    "after_their_gradients": (
        lambda: gradients(naive("zero-topo", num_layers=1)),
        after_their_gradients,
        is_gradient,
    ),
    "throttle": (lambda: reuse(naive("zero3"), 20_000), lambda p: throttle(p, 2), is_fetch),
}


@pytest.mark.parametrize("name", CASES)
def test_pass_as_text_before_and_after(name: str, golden: Golden) -> None:
    before, run, shown = CASES[name]
    program = before()
    golden(f"passes/{name}.txt", shown_before_and_after(program, run(program), shown))


def test_a_copy_is_not_fetched_before_it_is_written() -> None:
    """With room for everything, the gather of a copy stands behind the op that writes the copy."""
    program = prefetch(naive("zeropp"), replace(ENGINE, prefetch_elements=10**9))
    written: set[Ref] = set()
    read = [
        ref for _, item in program.items if isinstance(item, Move) and item.purpose == "copy_gather" for ref in item.src
    ]
    for _, item in program.items:
        if isinstance(item, Move) and item.purpose == "copy_gather":
            assert set(item.src) <= written
        elif not isinstance(item, Move | Hook):
            written.update(item.writes)
    assert read


def test_a_bucket_may_be_exactly_full() -> None:
    """A gradient that fills it goes with those before; one element less of room, and it waits for the next."""
    program = naive("zero3", num_layers=1)
    first, second, third = [item for _, item in program.items if isinstance(item, Move) and is_gradient(item)][:3]
    room = first.num_elements + second.num_elements
    for size, called in (
        (room, (first, second)),
        (room - 1, (first,)),
        (room + third.num_elements, (first, second, third)),
    ):
        items = bucket(program, "gradient", size).items
        call = next(item for _, item in items if isinstance(item, Move) and item.purpose == "gradient")
        assert call.src == tuple(ref for move in called for ref in move.src)
