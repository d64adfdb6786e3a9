"""Pipelines written by hand: two matrices per layer cut over `tensor`, a tied embedding, stages that exchange `x` and
`d.x`."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from math import prod
from typing import Any

from simfrontier.codecs import Plain
from simfrontier.schedule import Call, Collective, Compute, Exchange, Mesh, Op, Ref, Role, Schedule, Tensor
from simfrontier.schedule.placement import Placement, partial
from tests.schedule.naming import named_op

B, S, H, F, V = 8, 4, 16, 32, 64
Labels = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]

SIZES = {"b": B, "s": S, "h": H, "f": F, "v": V}
WEIGHTS = {"up": ("h", "f"), "down": ("f", "h"), "embedding.weight": ("v", "h")}
BATCH = ("data", "b")
EMBEDDING = "embedding.weight"


def tensor(name: str, dims: str, role: Any, cut: str = "", summed: tuple[str, ...] = (), **fields: Any) -> Tensor:
    """A tensor with one letter per dimension; `cut` names the dimensions that `data` (b) and `tensor` (f) cut."""
    over = {"b": "data", "f": "tensor"}
    shards = tuple((over[label], dims.index(label)) for label in cut)
    return Tensor(
        name=name,
        shape=tuple(SIZES[label] for label in dims),
        dtype=fields.pop("dtype", "fp32"),
        role=role,
        placement=Placement(shards, frozenset(), partial(summed).partial),
        dims=tuple(dims),
        **fields,
    )


@cache
def tensors() -> dict[str, Tensor]:
    made = [tensor("tokens", "bs", "activation", "b", dtype="int64", per_micro=True, persistent=True)]
    for name, dims, cut in (("x", "bsh", "b"), ("d.x", "bsh", "b"), ("h", "bsf", "bf"), ("d.h", "bsf", "bf")):
        made.append(tensor(name, dims, "activation", cut, per_layer=True, per_micro=True))
    for name in ("x", "d.x"):
        place = {"per_layer": True, "per_micro": True, "form_of": name}
        made.append(tensor(f"{name}.partial", "bsh", "activation", "b", ("tensor",), **place))
    made += [tensor(name, "bsv", "activation", "b", per_micro=True) for name in ("logits", "d.logits")]
    for name, dims in WEIGHTS.items():
        cut, place = "f" if "f" in dims else "", {"per_layer": name != EMBEDDING, "weight": name}
        made.append(tensor(name, "".join(dims), "weight", cut, persistent=True, **place))
        made.append(tensor(f"{name}.grad", "".join(dims), "accumulator", cut, ("data",), persistent=True, **place))
        for part in (".grad.reduced", ".grad.other"):
            made.append(tensor(name + part, "".join(dims), "gradient", cut, **place))
        made.append(tensor(f"{name}.master", "".join(dims), "master", cut, persistent=True, **place))
        made.append(
            tensor(f"{name}.moments", "".join(dims), "optimizer", cut, dtype="moments", persistent=True, **place)
        )
    scalar = Tensor(name="norm", shape=(1,), dtype="fp32", role="scalar", placement=partial(("stage", "tensor")))
    made += [scalar, replace(scalar, name="norm.total", placement=Placement(), form_of="norm")]
    return {each.name: each for each in made}


def work(kind: str, name: str, labels: str, reads: str, writes: str = "", adds: str = "") -> Compute:
    """Operands as words; `x+1` is of the next layer."""
    axes = {"b": "data", "f": "tensor"}
    product = product_of(labels, refs(reads)[0].name, (refs(writes) + refs(adds))[0].name) if kind == "matmul" else None
    return Compute(
        kind=kind,
        name=name,
        named=named_op(kind, name),
        reads=refs(reads),
        writes=refs(writes),
        accumulates=refs(adds),
        iteration=tuple((label, SIZES[label]) for label in labels),
        split=tuple((axes[label], label) for label in labels if label in axes),
        matmul=product,
        flops=2 * prod(SIZES[label] for label in labels) if product else 0,
    )


def product_of(labels: str, first: str, result: str) -> Labels:
    """(batch, m, n, k): what the result has of the first operand, what it has not, and what is summed over."""
    known = tensors()
    rows, kept = known[first].dims, known[result].dims
    m, n = ([label for label in labels if label in kept and (label in rows) is inside] for inside in (True, False))
    return (), tuple(m), tuple(n), tuple(label for label in labels if label not in kept)


def refs(words: str) -> tuple[Ref, ...]:
    return tuple(Ref(word.removesuffix("+1"), int(word.endswith("+1"))) for word in words.split())


def reduction(name: str, src: str, axes: tuple[str, ...], dst: str, comm: str) -> Collective:
    codec = Plain("fp32")
    return Collective(kind="all_reduce", name=name, axes=axes, src=refs(src), dst=refs(dst), codec=codec, comm=comm)


FORWARD = (
    work("matmul", "up", "bshf", "x up", "h"),
    work("matmul", "down", "bsfh", "h down", "x.partial+1"),
    reduction("activation", "x.partial+1", ("tensor",), "x+1", "tensor/compute"),
)
BACKWARD = (
    work("matmul", "down.dgrad", "bshf", "d.x+1 down", "d.h"),
    work("matmul", "down.wgrad", "bsfh", "h d.x+1", adds="down.grad"),
    work("matmul", "up.dgrad", "bsfh", "d.h up", "d.x.partial"),
    work("matmul", "up.wgrad", "bshf", "x d.h", adds="up.grad"),
    reduction("activation", "d.x.partial", ("tensor",), "d.x", "tensor/compute"),
)
LOOKUP = (work("lookup", "embedding", "bsh", "tokens embedding.weight", "x"),)
SCATTER = (work("scatter", "embedding.wgrad", "bsvh", "tokens d.x", adds="embedding.weight.grad"),)
HEAD = (
    work("matmul", "head", "bshv", "x embedding.weight", "logits"),
    work("loss", "loss", "bsv", "logits tokens", "d.logits"),
    work("matmul", "head.dgrad", "bsvh", "d.logits embedding.weight", "d.x"),
    work("matmul", "head.wgrad", "bsvh", "d.logits x", adds="embedding.weight.grad"),
)


def steps(stage: int, stages: int, micros: int, order: str) -> Iterator[tuple[str, int, int]]:
    """What a stage does, as Megatron-LM does it: (kind, micro-batch forward, micro-batch backward), -1 for none; `up`
    and `down` are the exchanges with the stage before and after."""
    warm = micros if order == "gpipe" else min(stages - 1 - stage, micros)
    for micro in range(warm):
        yield "up", micro, -1
        yield "forward", micro, -1
        yield "down", micro, -1
    if warm < micros:
        yield "up", warm, -1
    for micro in range(micros - warm):
        yield "forward", micro + warm, -1
        yield "down", micro + warm, micro
        yield "backward", -1, micro
        yield "up", -1 if micro + warm + 1 == micros else micro + warm + 1, micro
    for micro in range(micros - warm, micros):
        yield "down", -1, micro
        yield "backward", -1, micro
        yield "up", -1, micro


@dataclass
class Pipeline:
    """`stages` of `depth` layers each, for `micros` micro-batches; `overlap` gives every direction a lane of its own
    and messages of their own."""

    stages: int
    micros: int
    depth: int = 1
    order: str = "1f1b"
    overlap: bool = False
    known: dict[Op, Op] = field(default_factory=dict)

    def schedule(self) -> Schedule:
        roles = tuple(Role(f"s{i}", tuple(self.calls(i)), ("stage", i)) for i in range(self.stages))
        mesh = Mesh((("stage", self.stages), ("data", 2), ("tensor", 2)))
        meta = {"plan": "by hand", "grad_accum": self.micros, "num_layers": self.stages * self.depth}
        return Schedule(mesh=mesh, tensors=dict(tensors()), roles=roles, pools={}, meta=meta)

    def calls(self, stage: int) -> Iterator[Call]:
        first, last = stage == 0, stage == self.stages - 1
        begin, end = stage * self.depth, (stage + 1) * self.depth
        for kind, ahead, back in steps(stage, self.stages, self.micros, self.order):
            match kind:
                case "up" if not first:
                    yield from self.exchanges(stage - 1, ahead, back)
                case "down" if not last:
                    yield from self.exchanges(stage, ahead, back)
                case "forward":
                    if first:
                        yield Call("embedding", 0, ahead, LOOKUP)
                    for layer in range(begin, end):
                        yield Call("forward", layer, ahead, FORWARD)
                case "backward":
                    if last:
                        yield Call("head", end, back, HEAD)
                    for layer in reversed(range(begin, end)):
                        yield Call("backward", layer, back, BACKWARD)
                    if first:
                        yield Call("embedding.backward", 0, back, SCATTER)
        yield from self.step(stage)

    def exchanges(self, stage: int, ahead: int, back: int) -> Iterator[Call]:
        """Between a stage and the next: `x` of a micro-batch forward, `d.x` of one back, in one message each way."""
        layer = (stage + 1) * self.depth
        both = ((ahead, -1), (-1, back)) if self.overlap else ((ahead, back),)
        for forth, home in both:
            if forth >= 0 or home >= 0:
                micro = max(forth, 0) if forth >= 0 else home
                yield Call("exchange", layer, micro, (self.exchange(stage, forth, home, micro),))

    def exchange(self, stage: int, forth: int, home: int, micro: int) -> Op:
        way = "forward" if home < 0 else "backward" if forth < 0 else "both"
        lane = {"forward": f"stage.{stage}>{stage + 1}", "backward": f"stage.{stage + 1}>{stage}"}
        sent, got = (Ref("x"),) * (forth >= 0), (Ref("d.x", 0, home - micro),) * (home >= 0)
        op = Exchange(
            name=way,
            axis="stage",
            ends=(stage, stage + 1),
            src=sent,
            dst=sent,
            back_src=got,
            back_dst=got,
            codec=Plain("fp32"),
            comm=lane[way] if self.overlap else "stage",
            lane=lane[way] if self.overlap else "compute",
            blocking=not self.overlap,
        )
        return self.known.setdefault(op, op)

    # ── the optimizer step ──

    def step(self, stage: int) -> Iterator[Call]:
        begin, end = stage * self.depth, (stage + 1) * self.depth
        ends = stage in (0, self.stages - 1)
        for layer in range(begin, end):
            src, dst = "up.grad down.grad", "up.grad.reduced down.grad.reduced"
            yield Call("reduce", layer, 0, (reduction("gradient", src, ("data",), dst, "data"),))
        if ends:
            yield Call("tie", 0, 0, self.tie())
        norms = [("up.grad.reduced down.grad.reduced", layer) for layer in range(begin, end)]
        norms += [(f"{EMBEDDING}.grad.reduced", 0)] * (stage == 0)
        for reads, layer in norms:
            yield Call("norm", layer, 0, (work("norm2", "norm", "", reads, adds="norm"),))
        yield Call("clip", 0, 0, (reduction("norm", "norm", ("stage", "tensor"), "norm.total", "world"),))
        for layer in range(begin, end):
            yield Call("step", layer, 0, (adam("up"), adam("down")))
        if ends:
            yield Call("step.embedding", 0, 0, (adam(EMBEDDING),))

    def tie(self) -> tuple[Op, ...]:
        """The two copies of the embedding swap their gradients, and both add what they get."""
        grad = (Ref(f"{EMBEDDING}.grad.reduced"),)
        other = (Ref(f"{EMBEDDING}.grad.other"),)
        swap = Exchange(
            name="tie",
            axis="stage",
            ends=(0, self.stages - 1),
            src=grad,
            dst=other,
            back_src=grad,
            back_dst=other,
            codec=Plain("fp32"),
            comm="tie",
        )
        reduced = reduction("gradient", f"{EMBEDDING}.grad", ("data",), grad[0].name, "data")
        return reduced, swap, Compute(kind="accumulate", name="tie", reads=other, accumulates=grad)


def adam(name: str) -> Compute:
    states = f"{name}.moments {name}.master"
    return work("adam", "adam", "", f"norm.total {name}.grad.reduced {states}", f"{states} {name}")
