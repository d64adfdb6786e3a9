"""What a fit comes to, in sentences that the console and the page share."""

from __future__ import annotations

from simfrontier.collectives import ErrorSummary, LeftOutDevices
from simfrontier.fitting import FitOutcome, far_of
from simfrontier.report.phrases import counted, listed, percent
from simfrontier.validation import was_fitted

LARGE_WORDS = "several nodes, 4 MiB and more"

HARDLY = 9.0  # times its lower end is the upper end of an interval of which there is something to say


def calibration_lead(done: FitOutcome) -> str:
    """How many parameters were fitted to how many points, and their errors, fitted and left out."""
    record = done.record()
    text = (
        f"{counted(record.parameters, 'parameter')} of {record.library} fitted to "
        f"{counted(record.fitted.points, 'point')} on {listed(record.machines)}"
    )
    fitted = percent(record.fitted.mean_abs_error)
    if record.left_out is None:
        return f"{text}: {fitted} off on average, on points that the fit had seen."
    left = record.left_out
    return (
        f"{text}: over all sizes {percent(left.mean_abs_error)} off on average where the fit had not seen the point’s "
        f"number of devices (nine in ten within {percent(left.p90_abs_error)}), {fitted} where it had."
    )


def far_rows(done: FitOutcome) -> list[tuple[str, ErrorSummary]]:
    """The lines of the table of errors: fitted, left out, of large messages, by the file as it is, by devices."""
    record, left, large = done.record(), done.was_left_out, done.is_large
    rows = [("fitted, all sizes", record.fitted)]
    if record.left_out is not None:
        rows.append(("left out, all sizes", record.left_out))
        if (left & large).any():
            rows.append((f"left out, {LARGE_WORDS}", far_of(done.cross_validation.errors[left & large])))
    rows.append(("shipped, unchanged, all sizes", far_of(done.shipped_errors)))
    if large.any():
        rows.append((f"shipped, unchanged, {LARGE_WORDS}", far_of(done.shipped_errors[large])))
    return [*rows, *((f"{one.machine}, {one.devices:,} devices, left out", one.far) for one in record.places)]


def calibration_findings(done: FitOutcome) -> list[str]:
    """What the data cannot show, what could not be left out, and what was not fitted to."""
    record = done.record()
    parts = []
    if done.is_worse:
        parts.append(_worse_words(done))
    if done.covered is not None:
        parts.append(
            f"{percent(done.covered)} of the points left out lie in the 90 % interval that the calibration gives them: "
            f"by a spread of {done.model_sd:.3f}{_wider(done)}."
        )
    residual = done.problem.library.residual
    if residual is not None and done.model_sd != record.model_sd:
        why = "nothing was left out" if record.left_out is None else f"these points show {record.model_sd:.3f} only"
        parts.append(f"Error bars keep the shipped spread of {residual.model_sd:.3f}: {why}.")
    if record.unseen:
        parts.append(f"Not shown by the data, kept as in the file and not written: {listed(record.unseen)}.")
    hardly = [key for key, (low, high) in done.fitted.intervals.items() if high > HARDLY * low]
    if hardly:
        parts.append(f"Hardly shown by the data, see the interval: {listed(hardly)}.")
    if record.left_out is None and not done.cross_validation.faults:
        parts.append("All points are of one number of devices: nothing can be left out, so no cross-validation.")
    parts += [kept_words(place) for place in record.places if place.kept]
    parts += [
        f"Not left out: {machine}, {devices:,} devices: {fault}."
        for (machine, devices), fault in done.cross_validation.faults.items()
    ]
    parts += [
        f"Not fitted to: {counted(number, 'row')}: {missing.reason}."
        for missing, number in done.chosen.set_aside.items()
    ]
    return parts


def _wider(done: FitOutcome) -> str:
    """That other spreads hold too; nothing where none does."""
    most = float(done.spreads.max())
    if most == done.model_sd:
        return ""
    return f", or what the library’s file says of small messages and single kinds, up to {most:.3f}"


def _worse_words(done: FitOutcome) -> str:
    left = done.was_left_out
    fit, shipped = (
        far_of(errors[left]).mean_abs_error for errors in (done.cross_validation.errors, done.shipped_errors)
    )
    known = sum(was_fitted(row) for row, out in zip(done.chosen.rows, left.tolist(), strict=True) if out)
    seen = f", which were fitted to {known:,} of these {int(left.sum()):,} points" if known else ""
    return (
        f"Warning: the shipped numbers are nearer: {percent(shipped)} off on average{seen}, and the fit {percent(fit)} "
        "on points that it had not seen; a simulation may be farther off with this calibration than without."
    )


def kept_words(place: LeftOutDevices) -> str:
    """That the rest of the data does not show some parameters, so that leaving out means less."""
    return (
        f"Without {place.machine}’s {place.devices:,} devices the data do not show {listed(place.kept)}: there the "
        "value in the file was kept."
    )
