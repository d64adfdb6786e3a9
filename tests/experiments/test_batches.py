"""How settings are handed to workers: those of the same schedules together, in smaller parts at the end."""

from __future__ import annotations

from hypothesis import given, strategies as st

from simfrontier.experiments import Setting
from simfrontier.experiments.batches import MOST_TOGETHER, batches_of
from tests.sweep.studies import MICRO

HOP = "library.overrides.ring.hop_between_nodes_s"


def settings_of(sizes: list[int]) -> list[tuple[str, Setting]]:
    """Settings in an order in which those of the same schedules, so many of each, stand apart."""
    pairs = sorted((place, micro) for micro, size in enumerate(sizes) for place in range(size))
    return [
        (str(number), Setting(document={}, where="a.toml", changes={MICRO: micro, HOP: 1e-6 * (1 + number)}))
        for number, (_, micro) in enumerate(pairs)
    ]


def batches(sizes: list[int], num_workers: int) -> list[list[tuple[str, Setting]]]:
    made = settings_of(sizes)
    return [[*batch] for batch in batches_of(made, len(made), num_workers)]


@given(sizes=st.lists(st.integers(1, 70), min_size=1, max_size=12), num_workers=st.integers(1, 40))
def test_every_setting_is_in_one_batch(sizes: list[int], num_workers: int) -> None:
    made = batches(sizes, num_workers)
    numbers = [int(digest) for batch in made for digest, _ in batch]
    assert sorted(numbers) == list(range(sum(sizes)))
    assert all(1 <= len(batch) <= MOST_TOGETHER for batch in made)


def test_settings_of_the_same_schedules_are_one_batch() -> None:
    """Sixteen schedules of twelve settings each on two workers: only the last are cut."""
    made = batches([12] * 16, 2)
    whole = [each for each in made if len(each) == 12 and len({setting.changes[MICRO] for _, setting in each}) == 1]
    assert len(whole) >= 14


def test_batches_end_small() -> None:
    """Of 1,000 settings of the same schedules the last batch of two workers is short."""
    sizes = [len(batch) for batch in batches([1000], 2)]
    assert sizes[0] == 16 and max(sizes[-2:]) <= 4


def test_settings_that_share_nothing_go_together_too() -> None:
    """A call for each of 1,000 settings would cost more than it is worth."""
    assert len(batches([1] * 1000, 2)) < 120
