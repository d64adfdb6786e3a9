"""Waiting for the slowest devices in the steps of a study's plans."""

from __future__ import annotations

from typing import Any

from simfrontier.answers.step import band_of
from simfrontier.interfaces.report.view import StudyView


def waiting_of(view: StudyView) -> dict[str, dict[str, Any]]:
    """Waiting in a step by plan, expected over the samples, in seconds, at the largest size; empty where devices are
    not known to differ. `in_step_s`: by how much it makes the step longer (90 % interval, with the median);
    `in_calls_s`: how long a rank on average waits in calls of a name, beside kernels or not, the longest first."""
    found = {}
    for outcome in view.drawn:
        if outcome.waits is not None:
            means = {name: float(each.mean()) for name, each in outcome.waits.in_calls_s.items()}
            in_calls = dict(sorted(means.items(), key=lambda each: -each[1]))
            found[outcome.plan] = {"in_step_s": band_of(outcome.waits.in_step_s), "in_calls_s": in_calls}
    return found
