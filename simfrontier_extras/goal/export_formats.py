"""The format `goal` of `simfrontier export`: a simulated step as GOAL text, rank by rank, ops with what they wait for.

The grammar is that of spcl/LogGOPSim `src/LogGOPSim/txt2bin.re` at d5bb14a8: `rank R {`, an op or a `requires` a line,
`}`. Ops are `LABEL: calc NANOSECONDS cpu C`, `LABEL: send BYTESb to RANK tag T cpu C` and `LABEL: recv BYTESb from RANK
tag T cpu C`; `A requires B`: A begins when B is over, and both labels stand before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from simfrontier.answers.study import ExportFormat
from simfrontier.base.errors import InputError
from simfrontier.base.limits import Limit
from simfrontier.core.engine import CallKey, SimulatedStep, Walk, walks_of
from simfrontier.core.program import Collective, Compute, Exchange
from simfrontier.inputs.scenario import Scenario
from simfrontier_extras.goal.calls import Calls, GroupCall

RANKS: Final = Limit(most=128, what="ranks", why="as fidelity chunk: every message is a line at both its ends")
TRANSFERS: Final = Limit(
    most=1_000_000, what="transfers of all calls", why="each is some 200 bytes of text: a file of 200 MB"
)
ANY: Final = (1 << 32) - 1  # the tag that stands for any
LANES: Final = Limit(most=256, what="lanes", why="LogGOPSim numbers the CPUs of a rank in one byte")


def write_step(scenario: Scenario, plan: str, step: SimulatedStep, folder: Path) -> str:
    """Write PLAN.goal; return a one-line description of its contents. Raises InputError for a step that is too
    large."""
    try:
        facts = step_of(step)
    except InputError as error:
        raise error.within(when=f"plan {plan}") from None
    num_ranks = len(facts.walks)
    texts = [RankText(facts, rank) for rank in range(num_ranks)]
    with (folder / f"{plan}.goal").open("w", encoding="ascii", newline="\n") as file:
        file.write(f"num_ranks {num_ranks}\n")
        for text in texts:
            file.writelines(text.lines())
    sends, calcs = sum(text.num_sends for text in texts), sum(text.num_calcs for text in texts)
    num_bytes = sum(text.num_bytes for text in texts)
    return f"{plan}.goal: {num_ranks} ranks, {sends:,} messages of {num_bytes:,} bytes in all, {calcs:,} calculations"


def step_of(step: SimulatedStep) -> WrittenStep:
    """Return the programs of ranks, the tags of calls and the CPUs of lanes for a step. Raises InputError."""
    _refuse(RANKS, step.schedule.mesh.num_ranks)
    walks, calls = walks_of(step), Calls(step.pricing)
    tags: dict[CallKey, int] = {}
    lanes: dict[str, int] = {}
    next_tag = num_transfers = 0
    for role in step.roles:
        walk = walks[role.classes[0]]
        for op, key in zip(walk.ops, walk.keys, strict=True):
            lanes.setdefault(op.lane, len(lanes))
            if not isinstance(op, Compute) and key not in tags:
                groups = calls.of(op)
                tags[key] = next_tag
                next_tag += max(group.num_transfers for group in groups)
                num_transfers += sum(group.num_transfers for group in groups)
                _refuse(TRANSFERS, num_transfers)
    _refuse(LANES, len(lanes))
    assert next_tag < ANY
    return WrittenStep(
        walks=tuple(walks[cls] for cls in step.pricing.folding.rank_class.tolist()),
        calls=calls,
        tags=tags,
        lanes=lanes,
    )


def _refuse(limit: Limit, got: int) -> None:
    if fault := limit.fault(got):
        raise InputError(fault, where="--format goal")


# ── one rank ──


@dataclass(frozen=True, kw_only=True)
class WrittenStep:
    """A step in the form in which it is written.

    walks: the program of every rank (one object for all ranks of a class); calls: the messages of the step's calls;
    tags: by the key of a call, the tag of its first transfer; lanes: the CPU of each lane, the same on all ranks, since
    LogGOPSim charges a message to the same CPU number at both ends.
    """

    walks: tuple[Walk, ...]
    calls: Calls
    tags: Mapping[CallKey, int]
    lanes: Mapping[str, int]


class RankText:
    """The text of one rank, line by line, with counts of the written ops."""

    def __init__(self, step: WrittenStep, rank: int) -> None:
        self.step, self.rank, self.walk = step, rank, step.walks[rank]
        self.num_sends = self.num_calcs = self.num_bytes = 0

    def lines(self) -> Iterator[str]:
        """Yield the whole text."""
        walk, ends = self.walk, list[str]()
        yield f"rank {self.rank} {{\n"
        for index, (op, before) in enumerate(zip(walk.ops, walk.program.before, strict=True)):
            waits = dict.fromkeys(ends[other] for other in before)
            cpu = self.step.lanes[op.lane]
            if isinstance(op, Compute):
                ends.append(f"c{index}")
                yield from self._calc(ends[-1], round(walk.alone_s(index) * 1e9), cpu, waits)
            else:
                ends.append(f"e{index}")
                yield from self._call(index, op, cpu, waits)
        yield "}\n"

    def _calc(self, label: str, time_ns: int, cpu: int, waits: Iterable[str]) -> Iterator[str]:
        self.num_calcs += time_ns > 0
        yield f"{label}: calc {time_ns} cpu {cpu}\n"
        for other in waits:
            yield f"{label} requires {other}\n"

    def _call(self, index: int, op: Collective | Exchange, cpu: int, waits: Iterable[str]) -> Iterator[str]:
        """Yield the lines of a call: a mark where it begins, its messages, each after the previous one, and a mark
        where it ends."""
        call = self.step.calls.of_rank(op, self.rank)
        tag = self.step.tags[self.walk.keys[index]]
        begin, mine = f"b{index}", call.member[self.rank]
        yield from self._calc(begin, 0, cpu, waits)
        for number, message in enumerate(call.messages):
            names: dict[int, str] = {}
            last: dict[str, None] = {}  # what no other transfer waits for
            for transfer in call.of_member[number][mine]:
                name = names[transfer] = f"m{index}_{number}_{transfer}"
                needed = [names[other] for other in message[transfer].after if other in names]
                yield from self._transfer(call, number, transfer, name, tag + transfer, cpu, needed or [begin])
                for other in needed:
                    last.pop(other, None)
                last[name] = None
            end = f"e{index}" if number == len(call.messages) - 1 else f"n{index}_{number}"
            yield from self._calc(end, 0, cpu, last or [begin])
            tag, begin = tag + len(message), end

    def _transfer(
        self, call: GroupCall, number: int, transfer: int, name: str, tag: int, cpu: int, waits: Iterable[str]
    ) -> Iterator[str]:
        """Yield the lines of this rank's end of a transfer; copies and empty transfers take no time."""
        sent = call.messages[number][transfer]
        src, dst = call.ranks[sent.src], call.ranks[sent.dst]
        if src == dst or not sent.num_bytes:
            yield f"{name}: calc 0 cpu {cpu}\n"
        elif src == self.rank:
            self.num_sends += 1
            self.num_bytes += sent.num_bytes
            yield f"{name}: send {sent.num_bytes}b to {dst} tag {tag} cpu {cpu}\n"
        else:
            yield f"{name}: recv {sent.num_bytes}b from {src} tag {tag} cpu {cpu}\n"
        for other in waits:
            yield f"{name} requires {other}\n"


ADDS = (
    ExportFormat(
        name="goal",
        sentence="GOAL text of the whole step for LogGOPSim (txt2bin), collectives as single messages",
        write=write_step,
    ),
)
