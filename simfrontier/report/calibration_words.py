"""What a fit comes to, in sentences that the console and the page share."""

from __future__ import annotations

from simfrontier.collectives.fit_record import Place
from simfrontier.fitting.outcome import FitOutcome
from simfrontier.report.words import listed, percent

HARDLY = 9.0  # times its lower end is the upper end of an interval of which there is something to say


def lead_sentence(done: FitOutcome) -> str:
    """How many parameters were fitted to how many points, and how far these are off, fitted and left out."""
    record = done.record()
    said = (
        f"{record.parameters} parameters of {record.library} fitted to {record.fitted.points:,} points on "
        f"{listed(record.machines)}: {percent(record.fitted.mean_abs_error)} off on average"
    )
    if record.left_out is None:
        return f"{said}."
    left = record.left_out
    return (
        f"{said}, and {percent(left.mean_abs_error)} where the fit had not seen the point’s number of devices (nine in "
        f"ten within {percent(left.p90_abs_error)})."
    )


def findings(done: FitOutcome) -> list[str]:
    """What the data cannot show, what could not be left out, and what was not fitted to."""
    record = done.record()
    said = []
    if done.covered is not None:
        said.append(
            f"{percent(done.covered)} of the points left out lie in the 90 % interval of a spread of "
            f"{record.model_sd:.3f} in log time."
        )
    if record.unseen:
        said.append(f"Not shown by the data, kept as in the file and not written: {listed(record.unseen)}.")
    hardly = [key for key, (low, high) in done.fitted.intervals.items() if high > HARDLY * low]
    if hardly:
        said.append(f"Hardly shown by the data, see the interval: {listed(hardly)}.")
    if record.left_out is None and not done.crossed.faults:
        said.append("All points are of one number of devices: nothing can be left out, so no cross-validation.")
    said += [kept_words(place) for place in record.places if place.kept]
    said += [
        f"Not left out: {machine}, {devices:,} devices: {fault}."
        for (machine, devices), fault in done.crossed.faults.items()
    ]
    said += [f"Not fitted to: {number:,} rows: {reason}." for reason, number in done.chosen.set_aside.items()]
    return said


def kept_words(place: Place) -> str:
    """That the rest of the data does not show some parameters, so that leaving out says less."""
    return (
        f"Without {place.machine}’s {place.devices:,} devices the data do not show {listed(place.kept)}: there the "
        "value in the file was kept."
    )
