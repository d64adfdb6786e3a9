"""Local ops that only move, code or add what is there."""

from typing import Final

from simfrontier.core.program import traffic
from simfrontier.core.program.op_kind import CopyKind

KINDS: Final = (
    CopyKind(name="slice", words="slicing", traffic=traffic.as_written, coding="keeps", narrows=True),
    CopyKind(name="permute", words="reordering", coding="keeps"),
    CopyKind(name="merge", words="merging of the loss", coding="keeps", combines=True),
    CopyKind(name="encode", words="encoding", traffic=traffic.encoded, coding="encodes", narrows=True),
    CopyKind(name="decode", words="decoding", coding="decodes"),
    CopyKind(name="decode_sum", words="decoding and adding", coding="decodes", adds=True, combines=True),
    CopyKind(name="accumulate", words="accumulation of gradients", coding="plain", adds=True),
)
