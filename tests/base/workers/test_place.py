"""Where calls are worked on, as the command line says."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfrontier.base.errors import InputError
from simfrontier.base.workers import Local, RunningScheduler, SlurmJobs, load_slurm
from simfrontier.interfaces.cli.options import place_of

ONE = "allowed: one of --jobs, --scheduler, --slurm"
PAGES = "whose pages have an address of their own; allowed: with --jobs alone"


def test_without_options_it_is_this_machine() -> None:
    assert place_of(None, None, None, False) == Local(jobs=1)
    assert place_of(None, None, None, False, 8) == Local(jobs=8)
    assert place_of(3, None, None, False, 8) == Local(jobs=3)


def test_pages_are_served_on_this_machine_also_for_one_job() -> None:
    place = place_of(1, None, None, True)
    assert place == Local(jobs=1, dashboard=True) and isinstance(place, Local) and not place.is_here


def test_a_scheduler_and_settings_of_slurm_are_taken_as_they_are(tmp_path: Path) -> None:
    assert place_of(None, "tcp://10.0.0.1:8786", None, False, 8) == RunningScheduler(address="tcp://10.0.0.1:8786")
    mine = tmp_path / "mine.toml"
    mine.write_text('base = "lumi"\naccount = "abc123"\n', encoding="utf-8")
    assert place_of(None, None, str(mine), False) == SlurmJobs(settings=load_slurm(str(mine)))


@pytest.mark.parametrize(
    ("jobs", "scheduler", "slurm", "dashboard", "said"),
    [
        (2, "tcp://a:1", None, False, f"--scheduler: got --jobs and --scheduler; {ONE}"),
        (2, None, "lumi", False, f"--slurm: got --jobs and --slurm; {ONE}"),
        (None, "tcp://a:1", "lumi", False, f"--slurm: got --scheduler and --slurm; {ONE}"),
        (None, "tcp://a:1", None, True, f"--dashboard: got it with --scheduler, {PAGES}"),
        (None, None, "lumi", True, f"--dashboard: got it with --slurm, {PAGES}"),
        (None, None, "lumo", False, '--slurm: base: got "lumo", which is no cluster of the catalog; did you mean'),
    ],
)
def test_two_places_or_none_that_there_is_are_one_line(
    jobs: int | None, scheduler: str | None, slurm: str | None, dashboard: bool, said: str
) -> None:
    with pytest.raises(InputError) as caught:
        place_of(jobs, scheduler, slurm, dashboard)
    assert str(caught.value).startswith(said) and "\n" not in str(caught.value)
