"""The placement rules: what each op requires of its operands, once per distinct op of a schedule."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from simfrontier.base.errors import InputError
from simfrontier.core.program.checks.operands import Report, coded_text, stacked_text
from simfrontier.core.program.checks.optimizer import OptimizerRules
from simfrontier.core.program.checks.roles import roles_of_work
from simfrontier.core.program.checks.work import OpsByName, Stated, faults_of_work
from simfrontier.core.program.finding import Findings, Rule, ranks_of, ranks_of_role, title_of
from simfrontier.core.program.ir import HOST, Call, Collective, Compute, Exchange, Op, Role, Schedule, Tensor
from simfrontier.core.program.kinds import is_work, kind_of
from simfrontier.core.program.op_kind import AverageKind, CopyKind, ModelKind, NormKind, StepKind, WaitKind
from simfrontier.core.program.placement import PartialOp, Placement, placements_of


def check_tensors(schedule: Schedule, findings: Findings) -> None:
    """Every tensor's placement, nesting and stacking must make sense on the mesh."""
    for name, tensor in schedule.tensors.items():
        try:
            for axis in (*tensor.nesting, *tensor.stacked, *_axes_of(tensor.placement)):
                schedule.mesh[axis]
            size = tensor.local_bytes(schedule.mesh)
            _check_shared(schedule, tensor, size, findings)
        except InputError as error:
            findings.add("placements", f"tensor {name}", "all ranks", "a placement that the mesh allows", str(error))


def _check_shared(schedule: Schedule, tensor: Tensor, size: int, findings: Findings) -> None:
    """A tensor that lies in another's memory must be of its size."""
    if tensor.shares is None:
        return
    home = schedule.tensors.get(tensor.shares)
    if home is None or home.local_bytes(schedule.mesh) != size:
        text = "which is not declared" if home is None else f"of {home.local_bytes(schedule.mesh)} bytes"
        findings.add(
            "placements", f"tensor {tensor.name}", "all ranks", f"to share {size} bytes", f"{tensor.shares}, {text}"
        )


def _axes_of(placement: Placement) -> Iterable[str]:
    return (*(axis for axis, _ in placement.shards), *placement.flat, *(axis for axis, _ in placement.partial))


def check_ops(schedule: Schedule, findings: Findings) -> None:
    """The rules of each distinct op; a finding names the first role and call that the op is in."""
    rules = _Rules(schedule)
    seen: set[int] = set()
    for role in schedule.roles:
        blocks: set[int] = set()
        for call in role.calls:
            if call.block in blocks:
                continue
            blocks.add(call.block)
            _check_once(schedule, call, role, findings)
            for op in call.ops:
                if op.number not in seen:
                    seen.add(op.number)
                    _check_op(rules, op, call, role, findings)


def _check_once(schedule: Schedule, call: Call, role: Role, findings: Findings) -> None:
    """A block does each thing once: what an op writes would be written again from the same."""
    if len({op.number for op in call.ops}) == len(call.ops):
        return
    for op in {op.number: op for op in call.ops}.values():
        times = sum(each is op for each in call.ops)
        if times > 1 and op.writes:
            ranks = ranks_of_role(role, schedule.roles)
            findings.add("facts", title_of(op, call), ranks, "once in its block", f"{times} times")


def _check_op(rules: _Rules, op: Op, call: Call, role: Role, findings: Findings) -> None:
    def report(rule: Rule, expected: str, got: str) -> None:
        findings.add(rule, title_of(op, call), ranks_of(op, role, rules.schedule.roles), expected, got)

    if not rules.knows(op, report):
        return
    if isinstance(op, Collective):
        rules.collective(op, report)
        return
    if isinstance(op, Exchange):
        rules.exchange(op, report)
        return
    rules.work(op, report)
    match kind_of(op):
        case CopyKind() as kind:
            rules.copying(op, kind, report)
        case NormKind():
            rules.norm(op, report)
        case StepKind() as kind:
            rules.step(op, kind, report)
        case AverageKind():
            rules.average(op, report)
        case WaitKind():
            rules.wait(op, report)
        case ModelKind() as kind:
            rules.model(op, kind, report)


class _Rules(OptimizerRules):
    """The rules of local ops."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule)
        self.names = OpsByName(schedule.tensors)

    def work(self, op: Compute, report: Report) -> None:
        """The sizes, flops and operands of an op, and those of the others of its name."""
        faults = [*faults_of_work(op, self.schedule.tensors, Stated.of(self.schedule.meta))]
        if is_work(op):
            faults += [*roles_of_work(op, self.schedule.tensors), *self.names.faults(op)]
        for expected, got in faults:
            report("facts", expected, got)

    def copying(self, op: Compute, kind: CopyKind, report: Report) -> None:
        """One tensor in another form."""
        if op.accumulates and not kind.adds:
            report("references", f"a {op.kind} that accumulates nothing", op.accumulates[0].name)
        if op.writes and kind.coding == "plain":
            report("references", f"an {op.kind} that writes nothing", op.writes[0].name)
        dst = (*op.writes, *op.accumulates) if kind.adds else op.writes
        for a, b in self.pairs(op, op.reads, dst, report):
            src, end = self.of[a.name], self.of[b.name]
            if kind.narrows:
                self._sliced(a.name, b.name, report)
            else:
                self.placed(b.name, src.placement, report, f" like {a.name}")
            match kind.coding:
                case "encodes":
                    self._is_coded(b.name, end.tensor, report)
                case "decodes":
                    self._is_coded(a.name, src.tensor, report)
                    self.coded(b.name, None, report)
                case "keeps":
                    self.coded(b.name, src.tensor.codec, report)
                case "plain":
                    self.coded(a.name, None, report)
                    self.coded(b.name, None, report)
            if not kind.combines:
                self.stacked(a.name, (), report)
            elif not src.stacked:
                report("placements", f"{a.name} stacked: contributions side by side", stacked_text(()))
            self.stacked(b.name, (), report)

    def _is_coded(self, name: str, tensor: Tensor, report: Report) -> None:
        if tensor.codec is None:
            report("placements", f"{name} coded", coded_text(None))

    def _sliced(self, src: str, dst: str, report: Report) -> None:
        """A slice may shard or flatten further over axes that replicate, and do nothing else."""
        before, after = self.of[src].placement, self.of[dst].placement
        if (
            after.partial != before.partial
            or not before.flat <= after.flat
            or not all(_axes_along(after, dim)[: len(axes)] == axes for dim, axes in _by_dimension(before))
        ):
            report("placements", f"{dst} as a local slice of {src} [{before}]", f"[{after}]")

    def wait(self, op: Compute, report: Report) -> None:
        for ref in op.reads:
            if op.lane == HOST and self.of[ref.name].tensor.role != "token":
                report("references", "a hook of the host that waits for tokens only", ref.name)
        for ref in (*op.writes, *op.accumulates):
            report("references", "a hook that writes nothing", ref.name)

    def model(self, op: Compute, kind: ModelKind, report: Report) -> None:
        """Work of the model: the axes that cut its iteration space give the placement of every operand."""
        labels = dict(op.iteration)
        split = {axis: label for axis, label in op.split if label in labels and self.mesh[axis] > 1}
        for label in set(split.values()):
            over = [axis for axis, cut in split.items() if cut == label]
            if labels[label] % math.prod(self.mesh[axis] for axis in over):
                report("placements", f"a size of {label} that divides over {'+'.join(over)}", str(labels[label]))
        self._one_micro_batch(op, report)
        still = self._partial_sums(op) if kind.adds_values else ()
        # a product sums over its k alone: a bias's gradient lacks the labels of the weight's inputs, but sums over none
        summing = set(op.matmul[3]) if op.matmul is not None else set(labels)
        for ref in self.without_tokens(op.reads):
            dims = self.of[ref.name].tensor.dims
            wanted = Placement(placements_of(split, dims), partial=still)
            self.placed(ref.name, wanted, report, _why(split, " as an operand"))
            self.plain(ref.name, report)
        for ref in (*op.writes, *op.accumulates):
            dims = self.of[ref.name].tensor.dims
            # a state is the same on all ranks: what makes it is cut along nothing that it has not
            within = set(labels) if self.of[ref.name].tensor.role == "state" else summing
            summed = [(axis, kind.reduction) for axis, label in split.items() if label in within and label not in dims]
            combined = Placement(partial=tuple(summed))
            wanted = replace(combined.on(self.mesh), shards=placements_of(split, dims))
            wanted = replace(wanted, partial=still) if still else wanted
            self.placed(ref.name, wanted, report, _why(split, " as a result"))
            self.plain(ref.name, report)

    def _one_micro_batch(self, op: Compute, report: Report) -> None:
        """All operands of an op of the model that belong to a micro-batch belong to the same one."""
        refs = (*self.without_tokens(op.reads), *op.writes, *op.accumulates)
        own = [ref for ref in refs if self.of[ref.name].tensor.per_micro]
        for ref in own:
            if ref.micro != own[-1].micro:
                wanted = f"{ref.name} of the micro-batch of {own[-1].name} ({own[-1].micro:+d} from the call)"
                report("references", wanted, f"{ref.micro:+d}")

    def _partial_sums(self, op: Compute) -> tuple[tuple[str, PartialOp], ...]:
        """What all operands and results of an op are still to be summed over: sums may be added before that."""
        refs = (*self.without_tokens(op.reads), *op.writes, *op.accumulates)
        held = {self.of[ref.name].placement.partial for ref in refs}
        alike = held.pop() if len(held) == 1 else ()
        return alike if all(reduction == "sum" for _, reduction in alike) else ()


def _axes_along(placement: Placement, dim: int) -> list[str]:
    """The axes that shard a dimension, outermost first."""
    return [axis for axis, own in placement.shards if own == dim]


def _by_dimension(placement: Placement) -> Iterator[tuple[int, list[str]]]:
    return ((dim, _axes_along(placement, dim)) for dim in {dim for _, dim in placement.shards})


def _why(split: dict[str, str], role: str) -> str:
    cuts = ", ".join(f"{axis} cuts {label}" for axis, label in split.items())
    return f"{role}, because {cuts}" if cuts else role
