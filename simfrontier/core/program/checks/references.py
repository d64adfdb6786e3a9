"""Reads of what no op has written before: whether it comes later, never, or waits for the reader itself (a cycle)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from simfrontier.core.program.expansion import UnrolledProgram
from simfrontier.core.program.finding import CheckedRole, place_of, short_title, title_of
from simfrontier.core.program.ir import Ref, Tensor

MAX_LISTED = 20  # cycles looked for; a broken schedule may have thousands of such reads


def explain_unwritten(unwritten: list[tuple[int, Ref]], checked: CheckedRole) -> None:
    """Report what is wrong with each (op, reference) that is read before any write."""
    if not unwritten:
        return
    program, report = checked.program, checked.report
    writers = _writers(program)
    for number, (index, ref) in enumerate(unwritten):
        what = checked.text(ref)
        key = (program.ops[index].number, ref.name)
        later = [i for i in writers.get(ref, ()) if i >= index]
        if not later:
            report("references", index, f"{what} written by an op before", "no op writes it", key)
            continue
        cycle = _cycle(index, later[0], program, writers, checked.schedule.tensors) if number < MAX_LISTED else None
        if cycle is None:
            by = title_of(program.ops[later[0]], program.calls[later[0]])
            report("references", index, f"{what} written by an op before", f"it is written later, by {by}", key)
        else:
            text = " → ".join(f"{short_title(program.ops[i])} ({place_of(program.calls[i])})" for i in cycle)
            report("references", index, f"{what} from an op that does not need this one", f"a cycle: {text}", key)


def _writers(program: UnrolledProgram) -> dict[Ref, list[int]]:
    out: dict[Ref, list[int]] = {}
    for index in range(program.num_ops):
        for ref in (*program.writes[index], *program.accumulates[index]):
            out.setdefault(ref, []).append(index)
    return out


def _cycle(
    reader: int, writer: int, program: UnrolledProgram, writers: dict[Ref, list[int]], tensors: Mapping[str, Tensor]
) -> list[int] | None:
    """The ops from `reader` to `writer` and back to it, each needed by the next; None where there is no such path."""
    previous: dict[int, int] = {writer: -1}  # op → the op that needs it
    waiting = deque([writer])
    while waiting:
        index = waiting.popleft()
        if index == reader:
            path = [index]
            while previous[path[-1]] >= 0:
                path.append(previous[path[-1]])
            return [*path, reader]
        for ref in (*program.reads[index], *program.accumulates[index]):
            by = writers.get(ref, [])
            needed = [i for i in by if i < index][-1:]
            if not needed and not tensors[ref.name].persistent:
                needed = [i for i in by if i > index][:1]
            for source in needed:
                if source not in previous:
                    previous[source] = index
                    waiting.append(source)
    return None
