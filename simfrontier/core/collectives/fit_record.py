"""What a calibration file says of the fit that its numbers come from: how many points, and how far off they were."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Len

from simfrontier.base.io import NotNegative, Text, toml_number, toml_value


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorSummary:
    """How far predicted times lie from `points` measured ones: | predicted / measured − 1 |, on average, its 90th
    percentile, and the largest; `residual_sd` is the standard deviation of log(predicted / measured)."""

    points: Annotated[int, Ge(1)]
    mean_abs_error: NotNegative
    p90_abs_error: NotNegative
    worst_abs_error: NotNegative
    residual_sd: NotNegative


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutDevices:
    """The points on one number of a machine's devices, predicted by a fit that had seen none of them.

    `kept`: parameters that the other points do not show, so that they kept their values in the library's file.
    """

    machine: Text
    devices: Annotated[int, Ge(2)]
    far: ErrorSummary
    kept: tuple[Text, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRecord:
    """Of which library on which machines, with how many free parameters, and how well it holds.

    `left_out`: every point by a fit that had not seen its number of devices, None where there is only one such number;
    `places` are the same by number of devices. `unseen`: free parameters that no point shows; they are not in the
    calibration.
    """

    library: Text
    machines: Annotated[tuple[Text, ...], Len(1)]
    parameters: Annotated[int, Ge(1)]
    fitted: ErrorSummary
    left_out: ErrorSummary | None = None
    places: tuple[LeftOutDevices, ...] = ()
    unseen: tuple[Text, ...] = ()

    @property
    def model_sd(self) -> float:
        """Standard deviation of log(predicted / measured) to reckon with: the larger of points fitted and left out."""
        return max(far.residual_sd for far in (self.fitted, self.left_out) if far is not None)


def record_lines(record: FitRecord) -> Iterator[str]:
    """The lines of TOML of a record."""
    yield "[fit]  # errors are | predicted / measured - 1 |; residual_sd is of log(predicted / measured)"
    yield f"library = {toml_value(record.library)}"
    yield f"machines = {toml_value(record.machines)}"
    yield f"parameters = {record.parameters}"
    yield f"unseen = {toml_value(record.unseen)}  # free parameters that no point shows: not among the numbers above"
    yield f"fitted = {_inline(record.fitted)}"
    if record.left_out is not None:
        yield f"left_out = {_inline(record.left_out)}  # by fits that had not seen the point's number of devices"
    for place in record.places:
        yield from ("", "[[fit.places]]", f"machine = {toml_value(place.machine)}", f"devices = {place.devices}")
        yield f"far = {_inline(place.far)}"
        if place.kept:
            yield f"kept = {toml_value(place.kept)}  # not shown by the other points: as in the library's file"


def _inline(far: ErrorSummary) -> str:
    return (
        f"{{ points = {far.points}, mean_abs_error = {toml_number(far.mean_abs_error)}, "
        f"p90_abs_error = {toml_number(far.p90_abs_error)}, worst_abs_error = {toml_number(far.worst_abs_error)}, "
        f"residual_sd = {toml_number(far.residual_sd)} }}"
    )
