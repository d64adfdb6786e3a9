"""The tutorial of a traced job: its commands print what it shows, and its traces hold what its plans imply."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator

import pytest

from simfrontier.inputs.profiler import read_job
from simfrontier.inputs.scenario import load_scenario
from tests.invoke import ROOT, invoke

PAGE = ROOT / "docs" / "your-own-job.md"
FOLDER = ROOT / "docs" / "own-job"


def shown() -> Iterator[tuple[str, list[str]]]:
    """The commands of the page, each with the lines that it shows."""
    for block in re.findall(r"```\n\$ simfrontier (.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        command, *lines = block.splitlines()
        yield command, lines


@pytest.mark.parametrize(("command", "lines"), list(shown()), ids=lambda each: each if isinstance(each, str) else "")
def test_a_command_prints_what_the_page_shows(command: str, lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """From its first line to the last one before `...`."""
    monkeypatch.chdir(ROOT)
    ran = invoke(*shlex.split(command))
    assert ran.code == 0, ran
    said = [line.rstrip() for line in ran.out.rstrip().splitlines()]
    if lines[-1] == "...":
        lines = lines[:-1]
        said = said[: len(lines)]
    assert said == lines != []


def calls(wrap: str) -> list[tuple[str, int]]:
    """Kind and elements of the calls in the traces."""
    job = read_job(sorted((FOLDER / wrap).iterdir()))
    ops = [op.kernel.call for op in job.roles.programs[0][0].ops if op.kernel.call is not None]
    return [(call.meaning, call.num_bytes // 4) for call in ops]


def test_ddp_reduces_as_many_numbers_as_the_model_of_the_scenario_has() -> None:
    shape = load_scenario(FOLDER / "gpt.toml").shape
    assert sum(elements for _, elements in calls("ddp")) == shape.num_parameters
    assert {kind for kind, _ in calls("ddp")} == {"all_reduce"}


def test_fsdp2_gathers_blocks_forward_and_backward_and_the_root_once() -> None:
    layers = load_scenario(FOLDER / "gpt.toml").shape.num_layers
    counted = Counter(kind for kind, _ in calls("fsdp2"))
    assert counted == {"all_gather": 2 * layers + 1, "reduce_scatter": layers + 1, "all_reduce": 1}


def test_times_that_hold_waiting_are_marked() -> None:
    """One rank stands for both: of each call it is not known how long it waited for the other."""
    files = (FOLDER / "ddp" / "rank0.json.gz", "--stand-in", "--machine", FOLDER / "gpt.toml")
    lines = invoke("import", *files).out.splitlines()
    assert [line.count("*") for line in lines if line.startswith(" all_reduce")] == [1, 1, 1]
