"""Times of kernels and pauses on each rank of a program, relative to the mean of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Final

from simfrontier.core.machine import MeasuredKernel
from simfrontier.inputs.profiler.job_schedule import JobSchedule
from simfrontier.inputs.profiler.programs import RankProgram

_SAME: Final = 1e-12  # what differs by less, relative, took as long


def mean_pauses(alike: Sequence[RankProgram]) -> list[float]:
    """Return the pause before each kernel of the first rank's program, in seconds: the mean over ranks with as many
    kernels and calls on each lane, whose n-th on a lane is the same."""
    return [_mean(own) for own in _matched(alike, [[each.pause_s for each in one.placed] for one in alike])]


def rank_times(
    alike: Sequence[Sequence[RankProgram]], making: JobSchedule
) -> tuple[dict[str, MeasuredKernel], dict[int, dict[int, float]]]:
    """Kernels that take another time on the mean of their ranks than on the first of them; and how many times as long
    as that kernels and pauses take on each rank, by their op's place in the program."""
    means: dict[str, MeasuredKernel] = {}
    times: dict[int, dict[int, float]] = {}
    for role, several in enumerate(alike):
        lengths = [[each.kernel.end_s - each.kernel.start_s for each in one.placed] for one in several]
        pauses = [[each.pause_s for each in one.placed] for one in several]
        for index, (took, paused) in enumerate(zip(_matched(several, lengths), _matched(several, pauses), strict=True)):
            kernel = several[0].placed[index].kernel
            if kernel.call is None and kernel.own is None and not _are_same(took):
                name = making.names[role][index]
                means[name] = replace(making.kernels[name], seconds=fmean(took))
                _note(times, several, making.places[role][index], took)
            if (place := making.pause_places[role].get(index)) is not None and not _are_same(paused):
                _note(times, several, place, paused)
    return means, times


def _note(
    times: dict[int, dict[int, float]], several: Sequence[RankProgram], place: int, took: Sequence[float]
) -> None:
    mean = fmean(took)
    for program, own in zip(several, took, strict=True):
        times.setdefault(program.rank, {})[place] = own / mean


def _matched(several: Sequence[RankProgram], values: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return the values of all ranks for each kernel of the first; 0 where a rank does not have a part of one."""
    places = [one.indices_of_lanes for one in several]
    out: list[list[float]] = [[] for _ in values[0]]
    for lane, indices in places[0].items():
        for number, index in enumerate(indices):
            out[index] = [own[its[lane][number]] for own, its in zip(values, places, strict=True)]
    for lane, index in several[0].parts.items():
        parts = (one.parts.get(lane) for one in several)
        out[index] = [0.0 if its is None else own[its] for own, its in zip(values, parts, strict=True)]
    return out


def _mean(values: Sequence[float]) -> float:
    return values[0] if _are_same(values) else fmean(values)


def _are_same(values: Sequence[float]) -> bool:
    return max(values) - min(values) <= _SAME * max(values)
