"""Norms over features, and the sums over features that ranks share, which are formed first."""

from typing import Final

from simfrontier.core.program.op_kind import BACKWARD, ModelKind

KINDS: Final = tuple(
    ModelKind(
        name=name,
        words=words,
        parts=BACKWARD,
        sums=sums,
        has_whole_rows=not sums,
        has_own_labels=sums,
        needs=("operands", "weight"),
        adds_gradients=True,
        is_alike=not sums,
    )
    for name, words, sums in (
        ("norm", "norms", False),
        ("norm_sums", "sums of norms", True),
        ("rmsnorm", "norms (RMS)", False),
        ("rmsnorm_sums", "sums of norms (RMS)", True),
    )
)
