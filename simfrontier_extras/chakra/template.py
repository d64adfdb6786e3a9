"""The trace shared by equal ranks: the bytes of its nodes, and the parts in which ranks differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from simfrontier.core.engine import Walk
from simfrontier.core.program import Communicator, Exchange, ExpandedProgram
from simfrontier_extras.chakra.nodes import Kind, Peer, kinds_of, name_of, tags_of
from simfrontier_extras.chakra.schema import attribute_bytes, framed, head_bytes, length_bytes

MICROS_PER_S: Final = 1e6
Own = Communicator | Peer


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """Template of a trace: pieces of bytes in file order, each with its rank-dependent part, if any. Without such a
    part the bytes are whole messages; with one they are a single message without its length, to which the rank's
    attributes are appended. `owns`: the rank-dependent parts."""

    pieces: tuple[tuple[bytes, Own | None], ...]
    owns: tuple[Own, ...]
    num_nodes: int

    def written(self, own_bytes: Mapping[Own, bytes]) -> Iterator[bytes]:
        """Yield the bytes of one rank's trace, given the bytes of its rank-dependent parts."""
        for body, own in self.pieces:
            if own is None:
                yield body
            else:
                tail = own_bytes[own]
                yield length_bytes(len(body) + len(tail)) + body + tail


def template_of(walk: Walk, seconds: Sequence[float], comms: dict[str, int]) -> Template:
    """Return the trace of ranks whose ops take `seconds` without contention.

    An op waits for the ends of the ops in `program.before`, so that every node waits only for nodes before it. Adjacent
    messages that are the same for all ranks are joined into one piece of bytes.
    """
    program = walk.program
    tags, micros = tags_of(program, comms), _micros(program, seconds)
    kinds = walk.of_ops(lambda op: kinds_of(op, walk.step.schedule, walk.at))
    facts: dict[tuple[Kind, float], bytes] = {}
    pieces: list[tuple[bytes, Own | None]] = []
    run: list[bytes] = []
    nodes_of: list[range] = []  # of each op
    num_nodes = 0
    for index, (op, call, before) in enumerate(zip(program.ops, program.calls, program.before, strict=True)):
        waits_for = sorted({node for other in before for node in nodes_of[other]})
        nodes_of.append(range(num_nodes, num_nodes + len(kinds[index])))
        for kind in kinds[index]:
            known = facts.get((kind, seconds[index]))
            if known is None:
                exact = ("alone_s", "double_val", seconds[index])
                known = facts[kind, seconds[index]] = attribute_bytes((*kind.attributes, exact))
            head = head_bytes(num_nodes, name_of(op, call), kind.type, waits_for, micros[index])
            tag = attribute_bytes((("comm_tag", "int32_val", tags[index]),)) if isinstance(op, Exchange) else b""
            num_nodes += 1
            if kind.own is None:
                run.append(framed(head + known))
                continue
            pieces += [(b"".join(run), None), (head + known + tag, kind.own)]
            run = []
    pieces.append((b"".join(run), None))
    owns = tuple(dict.fromkeys(own for _, own in pieces if own is not None))
    return Template(pieces=tuple(pieces), owns=owns, num_nodes=num_nodes)


def _micros(program: ExpandedProgram, seconds: Sequence[float]) -> list[int]:
    """Return the duration of each op in integer microseconds: rounded such that, for every k, the sum over the first k
    ops of a lane is within half a microsecond of their exact total."""
    total, written = [0.0] * len(program.lanes), [0] * len(program.lanes)
    out = []
    for lane, took in zip(program.lane, seconds, strict=True):
        total[lane] += took * MICROS_PER_S
        now = round(total[lane])
        out.append(now - written[lane])
        written[lane] = now
    return out
