"""Batches of settings for workers: settings that share their schedules go together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final

from simfrontier.answers.experiments.setting import Setting
from simfrontier.inputs.scenario import NUMBER_TABLES

MOST_OF_BATCH: Final = 16  # settings
MOST_TOGETHER: Final = 24  # settings with the same schedules in one batch: what is lost at most where all is ended
WINDOW: Final = 4_096  # settings that are held at once, to find those with the same schedules
PARTS: Final = 4  # of what each worker would have of the settings that are left: its next batch
Keyed = tuple[str, Setting]  # with its digest


def is_number(key: str, value: Any) -> bool:
    """Whether a change is of a number of the machine's or the library's file, which leaves schedules as they are."""
    return isinstance(value, int | float) and not isinstance(value, bool) and key.startswith(NUMBER_TABLES)


def batches_of(settings: Iterable[Keyed], count: int, num_workers: int) -> Iterator[tuple[Keyed, ...]]:
    """Batches of so many settings. Those that differ in numbers of machine or library alone go together, as they share
    their schedules, which may take longer to make than to simulate. Batches become smaller towards the end, so that no
    worker is waited for long."""
    waiting = iter(settings)
    windows = iter(lambda: list(islice(waiting, WINDOW)), [])
    batch = list[Keyed]()
    for left in (each for window in windows for each in sorted(alike(window), key=len, reverse=True)):
        while left:
            size = max(1, min(MOST_OF_BATCH, count // (PARTS * num_workers)))
            piece, left = _cut(left, size)
            if batch and len(batch) + len(piece) > size:
                yield tuple(batch)
                batch = []
            batch += piece
            count -= len(piece)
    if batch:
        yield tuple(batch)


def alike(settings: Iterable[Keyed], is_free: Callable[[str, Any], bool] = is_number) -> list[list[Keyed]]:
    """Return groups of settings that differ in free changes alone: by default in numbers of machine or library."""
    groups: dict[tuple[Any, ...], list[Keyed]] = {}
    for keyed in settings:
        setting = keyed[1]
        others = [(key, repr(value)) for key, value in setting.changes.items() if not is_free(key, value)]
        groups.setdefault((setting.where, setting.plans, setting.devices, *others), []).append(keyed)
    return list(groups.values())


def _cut(group: list[Keyed], size: int) -> tuple[list[Keyed], list[Keyed]]:
    """Settings with the same schedules that are done at once, and the others. Few are cut only where little is left."""
    if len(group) <= MOST_TOGETHER:
        size = len(group) if size > 1 and len(group) <= PARTS * size else -(-len(group) // PARTS)
    return group[:size], group[size:]
