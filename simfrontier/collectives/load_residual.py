"""Reading how far off a library's law is, which library files of one and of two levels say alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from simfrontier.collectives.library import Residual
from simfrontier.schedule.ir import CollectiveKind

if TYPE_CHECKING:
    from simfrontier.collectives.schema import ResidualFile


def residual_of(part: ResidualFile) -> Residual:
    """How far a library's law is off, out of its file."""
    told = {kind: getattr(part, f"{kind}_sd") for kind in get_args(CollectiveKind)}
    return Residual(
        model_sd=part.model_sd.value,
        run_sd=part.run_sd.value,
        common_share=part.common_share.value if part.common_share is not None else 1.0,
        small_sd=part.small_sd.value if part.small_sd is not None else 0.0,
        small_bytes=part.small_bytes.value if part.small_bytes is not None else 0.0,
        of_kind={kind: number.value for kind, number in told.items() if number is not None},
    )
