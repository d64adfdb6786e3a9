"""The rules of the optimizer's step: what norms, Adam, LAMB and moving averages read and write, and where it lies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final

from simfrontier.core.program.checks.moves import MoveRules
from simfrontier.core.program.checks.operands import Report, text_of
from simfrontier.core.program.finding import Fault
from simfrontier.core.program.ir import Compute, Ref, Schedule, Tensor, TensorRole
from simfrontier.core.program.kinds import kind_of
from simfrontier.core.program.op_kind import NormKind, StepKind
from simfrontier.core.program.placement import Placement, partial
from simfrontier.core.program.roles import axis_of_roles

_WORDS: Final[dict[TensorRole, str]] = {"master": "master", "optimizer": "optimizer state", "norms": "norms"}


def roles_of_step(op: Compute, kind: StepKind, tensors: Mapping[str, Tensor]) -> Iterator[Fault]:
    """Of every weight an op of the optimizer reads and writes what its kind does, once each; all else that it reads are
    values of the whole step."""
    for access, wanted in (("read", kind.reads), ("written", kind.writes)):
        held: dict[tuple[str, int], list[TensorRole]] = {}
        for ref in op.reads if access == "read" else op.writes:
            tensor = tensors[ref.name]
            if tensor.per_micro and tensor.role != "token":
                yield f"{ref.name} to be of the step", "one for every micro-batch"
            if tensor.weight is not None:
                held.setdefault((tensor.weight, ref.layer), []).append(tensor.role)
            elif tensor.role not in ("scalar", "token"):
                yield f"{ref.name} with role scalar", f"role {tensor.role}"
        for (weight, _), roles in held.items():
            rest = sorted(role for role in roles if role not in wanted.one_of)
            if rest != sorted(wanted.states) or len(roles) != 1 + len(wanted.states):
                *first, last = (wanted.title, *(_WORDS[role] for role in wanted.states))
                yield f"{', '.join(first)} and {last} of {weight} {access} once", ", ".join(sorted(roles))


def size_of_step(op: Compute, tensors: Mapping[str, Tensor]) -> Iterator[Fault]:
    """Where an op of the optimizer says how many elements it updates, it updates as many."""
    masters = {ref for ref in (*op.reads, *op.writes) if tensors[ref.name].role == "master"}
    elements = sum(tensors[ref.name].num_elements for ref in masters)
    if op.iteration and math.prod(size for _, size in op.iteration) != elements:
        yield f"{elements} elements, of its masters", str(math.prod(size for _, size in op.iteration))


class OptimizerRules(MoveRules):
    """What ops of the optimizer do to placements."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule)
        self.scalars: list[Ref] | None = None  # those that the first op of its kind reads

    def norm(self, op: Compute, report: Report) -> None:
        """Squares of reduced gradients: the sum is partial over all axes that divide what the norm counts.

        Where something is sharded or there are several roles, it may be partial over more (each weight then counts on
        the ranks at coordinate 0 of what does not divide it).
        """
        for ref in self.without_tokens(op.reads):
            self._reduced(ref.name, report)
            if self.of[ref.name].weight is None:
                report("facts", f"gradients of weights, of which a {op.kind} is", ref.name)
        over, exactly, first = self._norm
        wanted = partial([axis for axis in self.mesh.names if axis in over])
        for target in op.accumulates:
            got = self.of[target.name].placement
            if exactly or got != partial(got.partial_axes).on(self.mesh) or not over <= got.partial_axes:
                self.placed(target.name, wanted, report, " (the axes that divide the gradients of the norm)")
            elif got != self.of[first].placement:
                self.placed(target.name, self.of[first].placement, report, f" like {first}, of the same norm")

    @cached_property
    def _norm(self) -> tuple[frozenset[str], bool, str]:
        """Of the norm of the schedule: the axes that divide it, whether it may be partial over no others, and the first
        tensor that takes it."""
        roles = self.schedule.roles
        ops = [op for op in self.schedule.ops if isinstance(kind_of(op), NormKind)]
        held = [self.of[ref.name].placement for op in ops for ref in op.reads if ref.name in self.of]
        over = frozenset(axis for p in held for axis in _dividing(p))
        axis = axis_of_roles(self.schedule)
        if axis is not None:
            over |= set(self.mesh.live((axis,)))
        exactly = len(roles) == 1 and not any(p.shards for p in held)
        return over, exactly, next((ref.name for op in ops for ref in op.accumulates if ref.name in self.of), "")

    def step(self, op: Compute, kind: StepKind, report: Report) -> None:
        """Per weight: all that is read and written of it lies like its master, and is of one layer; states are read and
        written; the norms that LAMB takes are partial over what divides the master, and whole when it scales by
        them."""
        for expected, got in (
            *roles_of_step(op, kind, self.schedule.tensors),
            *size_of_step(op, self.schedule.tensors),
        ):
            report("facts", expected, got)
        if kind.reads_gradients:
            self._same_scalars(op, report)
        for ref in op.reads:
            if self.of[ref.name].weight is None:
                self.placed(ref.name, Placement(), report, " (a value for all ranks)")
        one_way = set(op.reads) ^ set(op.writes)
        for ref in (*op.reads, *op.writes):
            if ref in one_way and self.of[ref.name].tensor.role in kind.renewed:
                did, not_done = ("read", "not written") if ref in op.reads else ("written", "not read")
                report("references", f"{ref.name} read and written by the {op.kind}", f"{did}, {not_done}")
        masters = {(self.of[r.name].weight, r.layer): r for r in op.reads if self.of[r.name].tensor.role == "master"}
        for ref in (ref for ref in (*op.reads, *op.writes) if self.of[ref.name].weight is not None):
            master = masters.get((self.of[ref.name].weight, ref.layer))
            if master is None:
                wanted = f"the master of {self.of[ref.name].weight}, read by the same {op.kind}"
                report("references", wanted, f"only {ref.name}")
            elif self.of[ref.name].tensor.role == "norms":
                self._norms(kind, ref, master, report)
            elif self.of[ref.name].placement.partial:
                self._reduced(ref.name, report)
            else:
                self._same_shape(ref.name, master.name, report)

    def _same_scalars(self, op: Compute, report: Report) -> None:
        """All steps of one optimizer clip by the same scalars."""
        scalars = [ref for ref in op.reads if self.of[ref.name].tensor.role == "scalar"]
        if self.scalars is None:
            self.scalars = scalars
        if scalars != self.scalars:
            wanted, got = (", ".join(ref.name for ref in each) or "none" for each in (self.scalars, scalars))
            report("facts", f"{wanted} read, as by the other {op.kind}s", got)

    def _norms(self, kind: StepKind, ref: Ref, master: Ref, report: Report) -> None:
        """Of a rank's own share where they are taken, of the whole tensor where they are used."""
        if not kind.reads_gradients:
            self.placed(ref.name, Placement(), report, f" (the norms of all of {master.name})")
            return
        over = partial(_dividing(self.of[master.name].placement)).on(self.mesh)
        self.placed(ref.name, over, report, f" (the axes that divide {master.name})")

    def average(self, op: Compute, report: Report) -> None:
        """A state becomes a moving average of a weight, which lies alike."""
        if len(op.reads) != 2 or op.writes != op.reads[1:] or self.of[op.reads[1].name].tensor.role != "state":
            got = f"reads {text_of(op.reads)}, writes {text_of(op.writes)}"
            report("references", "an ema that reads a weight and a state, and writes that state", got)
            return
        weight, state = op.reads
        followed = self.of[state.name].tensor.follows
        if weight.name != followed:
            report("references", f"the weight that {state.name} follows, {followed}", weight.name)
        elif weight.layer != state.layer:
            report("references", f"{weight.name} of the layer of {state.name} ({state.layer:+d})", f"{weight.layer:+d}")
        self._same_shape(state.name, weight.name, report)

    def _reduced(self, name: str, report: Report) -> None:
        placement = self.of[name].placement
        if placement.partial:
            report("placements", f"{name} fully reduced", f"[{placement}]")
        self.plain(name, report)

    def _same_shape(self, name: str, master: str, report: Report) -> None:
        self.placed(name, self.of[master].placement, report, f" like {master}")
        self.plain(name, report)
        if self.of[name].tensor.shape != self.of[master].tensor.shape:
            report("placements", f"{name} with the shape of {master}", text_of(self.of[name].tensor.shape))


def _dividing(placement: Placement) -> frozenset[str]:
    """The axes over which ranks hold different parts."""
    return placement.flat | {axis for axis, _ in placement.shards}
