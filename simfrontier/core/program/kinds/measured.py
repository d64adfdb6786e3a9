"""What no file of a schedule has: kernels of a job that was read from its traces, the pauses between them, and one op
that stands for all of a call."""

from typing import Final

from simfrontier.core.program.op_kind import MeasuredKind, OpKind

MEASURED: Final = MeasuredKind(name="measured", words="measured", in_files=False)
PAUSE: Final = MeasuredKind(name="pause", words="pause", in_files=False, is_pause=True)
CALL: Final = OpKind(name="call", words="call", in_files=False)
KINDS: Final = (MEASURED, PAUSE, CALL)
