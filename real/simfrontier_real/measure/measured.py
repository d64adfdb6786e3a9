"""Messages whose lengths depend on their values: the members agree on a length, then send so much."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simfrontier.core.program import Collective, Exchange
from simfrontier_real.ops.arrays import Array, Backend
from simfrontier_real.ops.codecs.mpc import stream_bytes
from simfrontier_real.ranks.transport import Pending, Transport

CountBytes = Callable[[int], None]  # how many bytes the whole message has in the end


@dataclass
class MeasuredPending:
    """Two calls, one after the other: lengths, and what they are of. What arrives is as wide as the longest stream of
    the group (of an exchange: of the other end), filled up behind its own."""

    lengths: Pending
    begin: Callable[[Array], Pending]
    message: Pending | None = None

    def is_done(self) -> bool:
        if self.message is None and self.lengths.is_done():
            self.message = self.begin(self.lengths.wait())
        return self.message is not None and self.message.is_done()

    def wait(self) -> Array:
        if self.message is None:
            self.message = self.begin(self.lengths.wait())
        return self.message.wait()


def begin_measured(
    backend: Backend, transport: Transport, op: Collective, message: Array, members: int, count_bytes: CountBytes
) -> Pending:
    """A collective of coded pieces: all-gather [capacity], or all-to-all [members, capacity]."""
    longest = int(stream_bytes(backend.xp.reshape(message, (-1, message.shape[-1]))).max())
    is_gather = op.wire_kind == "all_gather"
    own = backend.array([longest] * (1 if is_gather else members), "int64")
    own = own if is_gather else backend.xp.reshape(own, (members, 1))

    def begin(lengths: Array) -> Pending:
        width = int(lengths.max())
        count_bytes(members * width)
        trimmed = backend.xp.asarray(message[..., :width], copy=True)
        return transport.begin(op, trimmed)

    return MeasuredPending(transport.begin(op, own), begin)


def exchange_measured(
    backend: Backend, transport: Transport, op: Exchange, message: Array | None, awaits: bool, count_bytes: CountBytes
) -> Pending:
    """An exchange of one coded piece in each direction, or in one."""
    width = 0 if message is None else int(stream_bytes(backend.xp.reshape(message, (1, -1)))[0])
    own = None if message is None else backend.array([width], "int64")
    room = backend.zeros((1,), "int64") if awaits else None

    def begin(length: Array | None) -> Pending:
        count_bytes(width)
        space = None if length is None else backend.empty((int(length[0]),), "uint8")
        return transport.exchange(op, None if message is None else message[:width], space)

    return MeasuredPending(transport.exchange(op, own, room), begin)
