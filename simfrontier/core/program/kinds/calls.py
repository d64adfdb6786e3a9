"""Communication, and waits."""

from typing import Final

from simfrontier.core.program import traffic
from simfrontier.core.program.op_kind import CallKind, WaitKind

HOOK: Final = WaitKind(name="hook", words="hooks of the host", traffic=traffic.nothing)
COLLECTIVES: Final = (
    CallKind(name="all_gather", words="all-gathers"),
    CallKind(name="reduce_scatter", words="reduce-scatters", sums=True),
    CallKind(name="all_reduce", words="all-reduces", sums=True),
    CallKind(name="all_to_all", words="all-to-alls"),
)
EXCHANGE: Final = CallKind(name="exchange", words="exchanges of stages")
KINDS: Final = (HOOK, *COLLECTIVES, EXCHANGE)
