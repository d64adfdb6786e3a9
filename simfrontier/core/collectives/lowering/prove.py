"""The proof of a lowered collective: chunks run through its transfers must end as its kind means."""

from __future__ import annotations

from simfrontier.core.collectives.lowering.transfers import Lowered, Transfer
from simfrontier.core.program import ChunkSum, Clash, Form, Interpreter

MAX_FINDINGS = 20


def prove(lowered: Lowered) -> list[str]:
    """What is wrong with a lowered collective, in words; nothing where it does exactly what its kind means.

    A place in a line is empty or holds a sum over ranks of one chunk. Keeping the ranks alone would let a right sum of
    the wrong chunk pass. The transfers run one after the other; that any order allowed by `after` gives the same
    follows from `after` itself, which orders any two transfers of which one writes what the other reads or writes, but
    for two additions.
    """
    return _Proof(lowered).run()


class _Proof(Interpreter[int]):
    """The content of every chunk of every member's line, by numbers that go on from line to line."""

    def __init__(self, lowered: Lowered) -> None:
        super().__init__()
        self.lowered, self.num_chunks = lowered, lowered.num_chunks
        self.findings: list[str] = []
        self.fault = ""  # of the transfer that is being done
        self.width = _widths(lowered)
        for member in range(lowered.size):
            self.held.update(
                zip(self._places(member, lowered.input(member)), lowered.meaning.before(member), strict=True)
            )

    def run(self) -> list[str]:
        for number, transfer in enumerate(self.lowered.transfers):
            text = self._misfit(transfer) or self._move(transfer)
            if text:
                self._find(f"transfer {number} ({_transfer_text(transfer)}) {text}")
        self._end()
        return self.findings

    def empty(self, place: int, adding: bool) -> None:
        chunk = place % self.num_chunks
        self.fault = self.fault or f"{'adds to' if adding else 'reads'} chunk {chunk}, which is empty"

    def clash(self, clash: Clash) -> None:
        self.fault = self.fault or _clash_text(clash)

    def _places(self, member: int, chunks: range) -> range:
        begin = member * self.num_chunks
        return range(begin + chunks.start, begin + chunks.stop)

    def _find(self, text: str) -> None:
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(text)

    def _misfit(self, t: Transfer) -> str | None:
        size, end = self.lowered.size, self.lowered.num_chunks
        if not (0 <= t.src < size and 0 <= t.dst < size):
            return f"names a member that is not one of 0 to {size - 1}"
        if t.count < 1 or min(t.chunk, t.to) < 0 or max(t.chunk, t.to) + t.count > end:
            return f"goes beyond the line's {end} chunks"
        if t.src == t.dst and abs(t.chunk - t.to) < t.count:
            return "writes what it reads"
        if self.width[t.chunk : t.chunk + t.count] != self.width[t.to : t.to + t.count]:
            return "moves chunks to places of another width"
        return None

    def _move(self, t: Transfer) -> str:
        """Do the transfer, as far as it makes sense; its first fault."""
        self.fault = ""
        sources = self._places(t.src, range(t.chunk, t.chunk + t.count))
        targets = self._places(t.dst, range(t.to, t.to + t.count))
        if t.add:
            self.add(sources, targets)
        else:
            self.copy(sources, targets)
        return self.fault

    def _end(self) -> None:
        for member in range(self.lowered.size):
            places = self._places(member, self.lowered.output(member))
            for place, wanted in zip(places, self.lowered.meaning.after(member), strict=True):
                form = self.held.get(place)
                if form != wanted:
                    chunk = place % self.num_chunks
                    self._find(f"member {member} ends with {_held_text(form)} in chunk {chunk}")


def _widths(lowered: Lowered) -> list[int]:
    """A number per place of the line; places with the same number are equally wide for every number of elements."""
    if lowered.kind == "all_reduce":
        widths = list(range(lowered.num_message_chunks))
    else:
        widths = list(range(lowered.parts)) * lowered.size
    every = widths * 2 if lowered.kind == "all_to_all" else list(widths)
    return every + [widths[chunk] for chunk in lowered.like]


def _clash_text(clash: Clash) -> str:
    if (twice := clash.twice) is None:
        return f"adds a part of message chunk {clash.other.chunk} to one of chunk {clash.one.chunk}"
    return f"counts member {twice.members[0]}'s chunk {twice.chunk} twice"


def _held_text(form: Form | None) -> str:
    if not isinstance(form, ChunkSum):
        return "nothing"
    return f"message chunk {form.chunk} of {', '.join(map(str, form.members))}"


def _transfer_text(t: Transfer) -> str:
    verb = "adds" if t.add else "copies"
    return f"{t.src} {verb} {t.count} from {t.chunk} to {t.to} of {t.dst}"
