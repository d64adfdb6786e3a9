"""The trace shared by ranks that are alike: the bytes of its nodes, and the places at which ranks differ."""

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
    """Template of a trace: bytes in the order of a file, each with the part that follows from the rank. Without it the
    bytes are whole messages; with it one message without its length, and the rank's attributes go at its end. `owns`:
    the parts that differ between ranks."""

    pieces: tuple[tuple[bytes, Own | None], ...]
    owns: tuple[Own, ...]
    num_nodes: int

    def written(self, own_bytes: Mapping[Own, bytes]) -> Iterator[bytes]:
        """Yield the bytes of one rank's trace, from those of its own parts."""
        for body, own in self.pieces:
            if own is None:
                yield body
            else:
                tail = own_bytes[own]
                yield length_bytes(len(body) + len(tail)) + body + tail


def template_of(walk: Walk, seconds: Sequence[float], comms: dict[str, int]) -> Template:
    """Return the trace of ranks whose ops take `seconds` alone (without contention).

    An op waits for the ends of those that `program.before` names, so that every node waits for nodes before it only.
    Messages that are the same for all ranks become one run of bytes.
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
    """Return the whole microseconds of each op, as a node has them: rounded so that the sum over the first k ops of a
    lane is within half a microsecond of the time that these take, for every k."""
    total, written = [0.0] * len(program.lanes), [0] * len(program.lanes)
    out = []
    for lane, took in zip(program.lane, seconds, strict=True):
        total[lane] += took * MICROS_PER_S
        now = round(total[lane])
        out.append(now - written[lane])
        written[lane] = now
    return out
