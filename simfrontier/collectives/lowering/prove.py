"""The proof of a lowered collective: (rank, chunk) symbols run through its transfers must end as its kind means."""

from __future__ import annotations

from simfrontier.collectives.lowering.transfers import Lowered, Transfer

MAX_FINDINGS = 20


def prove(lowered: Lowered) -> list[str]:
    """What is wrong with a lowered collective, in words; nothing where it does exactly what its kind means.

    A symbol is one rank's contribution to one chunk of the message. A place in a line is empty or holds a sum of
    symbols. Since sums are never taken apart, a right one holds one chunk's symbols only, each rank's at most once; so
    a place's content is (chunk, set of ranks). Keeping the ranks alone would let a right sum of the wrong chunk pass.
    The transfers run one after the other; that any order allowed by `after` gives the same follows from `after` itself,
    which orders any two transfers of which one writes what the other reads or writes, but for two additions.
    """
    return _Proof(lowered).run()


class _Proof:
    """The content of every place of every line: which chunk (-1: empty) and whose contributions (bits)."""

    def __init__(self, lowered: Lowered) -> None:
        self.lowered = lowered
        self.findings: list[str] = []
        line = range(lowered.num_chunks)
        self.what = [[-1 for _ in line] for _ in range(lowered.size)]
        self.whose = [[0 for _ in line] for _ in range(lowered.size)]
        self.width = _widths(lowered)
        for rank in range(lowered.size):
            own = lowered.kind != "all_gather"
            for chunk in range(lowered.num_message_chunks):
                if own or chunk // lowered.parts == rank:
                    self.what[rank][chunk], self.whose[rank][chunk] = chunk, 1 << rank

    def run(self) -> list[str]:
        for number, transfer in enumerate(self.lowered.transfers):
            text = self._misfit(transfer) or self._move(transfer)
            if text:
                self._find(f"transfer {number} ({_transfer_text(transfer)}) {text}")
        self._end()
        return self.findings

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

    def _move(self, t: Transfer) -> str | None:
        """Do the transfer; on a fault, as far as it makes sense."""
        what, whose = self.what[t.src], self.whose[t.src]
        into, sums = self.what[t.dst], self.whose[t.dst]
        text = None
        for chunk, to in zip(range(t.chunk, t.chunk + t.count), range(t.to, t.to + t.count), strict=True):
            if what[chunk] < 0:
                text = text or f"reads chunk {chunk}, which is empty"
            elif not t.add:
                into[to], sums[to] = what[chunk], whose[chunk]
            elif into[to] < 0:
                text = text or f"adds to chunk {to}, which is empty"
            elif into[to] != what[chunk]:
                text = text or f"adds a part of message chunk {what[chunk]} to one of chunk {into[to]}"
            elif sums[to] & whose[chunk]:
                text = text or f"counts member {_first(sums[to] & whose[chunk])}'s chunk {what[chunk]} twice"
            else:
                sums[to] |= whose[chunk]
        return text

    def _end(self) -> None:
        lowered, parts = self.lowered, self.lowered.parts
        everyone = (1 << lowered.size) - 1
        for rank in range(lowered.size):
            for chunk in range(lowered.num_message_chunks):
                piece, part = divmod(chunk, parts)
                place, what, whose = chunk, chunk, everyone
                match lowered.kind:
                    case "all_gather":
                        whose = 1 << piece
                    case "reduce_scatter" if piece != rank:
                        continue
                    case "all_to_all":
                        place, what, whose = chunk + lowered.result_chunk, rank * parts + part, 1 << piece
                if (self.what[rank][place], self.whose[rank][place]) != (what, whose):
                    self._find(f"member {rank} ends with {self._held(rank, place)} in chunk {place}")

    def _held(self, rank: int, place: int) -> str:
        if self.what[rank][place] < 0:
            return "nothing"
        whose = self.whose[rank][place]
        ranks = [str(member) for member in range(self.lowered.size) if whose >> member & 1]
        return f"message chunk {self.what[rank][place]} of {', '.join(ranks)}"


def _widths(lowered: Lowered) -> list[int]:
    """A number per place of the line; places with the same number are equally wide for every number of elements."""
    if lowered.kind == "all_reduce":
        widths = list(range(lowered.num_message_chunks))
    else:
        widths = list(range(lowered.parts)) * lowered.size
    every = widths * 2 if lowered.kind == "all_to_all" else list(widths)
    return every + [widths[chunk] for chunk in lowered.like]


def _first(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _transfer_text(t: Transfer) -> str:
    verb = "adds" if t.add else "copies"
    return f"{t.src} {verb} {t.count} from {t.chunk} to {t.to} of {t.dst}"
