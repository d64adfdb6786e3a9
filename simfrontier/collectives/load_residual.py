"""Reading how far off a library's law is, which library files of one and of two levels say alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from simfrontier.collectives.library import Residual
from simfrontier.io import value_or
from simfrontier.schedule import CollectiveKind

if TYPE_CHECKING:
    from simfrontier.collectives.schema import ResidualFile


def residual_of(part: ResidualFile) -> Residual:
    """How far a library's law is off, out of its file."""
    by_kind = {kind: getattr(part, f"{kind}_sd") for kind in get_args(CollectiveKind)}
    return Residual(
        model_sd=part.model_sd.value,
        run_sd=part.run_sd.value,
        common_share=value_or(part.common_share, 1.0),
        small_sd=value_or(part.small_sd, 0.0),
        small_bytes=value_or(part.small_bytes, 0.0),
        of_kind={kind: number.value for kind, number in by_kind.items() if number is not None},
    )
