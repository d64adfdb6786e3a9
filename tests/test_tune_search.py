"""`simfrontier tune SCENARIO`: what it prints, writes and refuses, and how it goes on after it was stopped."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simfrontier.scenario import grid_orders, load_scenario
from simfrontier.simulation.memory import fullest
from simfrontier.study import STORE, ScheduleCache, simulated, store_in
from simfrontier.tuning import TuningOutcome, tune
from tests.invoke import ROOT, TOY, Ran, invoke, refusal
from tests.tuning.toys import PINNED, PINS, TOY_TUNE, written

QUICK = (*PINNED, "--simulate", "5", "--jobs", "1")
FILES = ["best.toml", "index.html", "manifest.json", "results.csv"]


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, Path]:
    folder = tmp_path_factory.mktemp("searched")
    return invoke("tune", written(folder), *QUICK, "--out", folder / "out", "--top", "2"), folder / "out"


def rows(out: Path) -> list[dict[str, str]]:
    with (out / "results.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# ── for a person ──


def test_the_terminal_says_what_was_searched_who_wins_why_and_how_sure(searched: tuple[Ran, Path]) -> None:
    ran, out = searched
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0].startswith("16 plans of tiny with a batch of 16 sequences on 8 GCDs of toy-cluster: ")
    counts = [int(part.split()[0]) for part in lines[0].partition(": ")[2].split(", ")]
    simulated = sum(row["known"] == "simulated" for row in rows(out))  # others cannot be faster
    assert sum(counts) == 16 and 2 < simulated <= 5 and lines[0].endswith(f", {simulated} simulated.")
    assert lines[1] == (
        "Held: tensor = 2, pipeline = 1 or 2, micro_batch = 1, states = ddp or zero1; no plan loses precision."
    )
    assert f"Simulated plans (the best 2 of {simulated}; fidelity flow)" in ran.out
    best = next(line for line in lines if line.startswith(" 1  megatron tensor 2, ddp, "))
    assert "Stacks: megatron-core (1, 2)." in ran.out
    assert best.split()[-2:] == ["1.19", "MB"] and " ms" in best and " %" in best
    lead = next(line for line in lines if line.startswith("megatron tensor 2, ddp, "))  # as on the page
    assert " a step, " in lead and " on the fullest GCD; " in lead and (" the next, " in lead or "as fast as" in lead)
    assert "The scenario's own plans" in ran.out
    assert "not run: training.batch = 16 does not divide over 8" in " ".join(ran.out.split())
    assert "Plans of the scenario itself are faster still, and not among the simulated plans of the space: zero3 (" in (
        ran.out
    )
    assert "\nWhy: megatron tensor 2, ddp, micro-batch 1, keeping activations is " in ran.out
    assert f"Against their estimates, over {simulated} plans that were simulated: nominal steps " in ran.out
    assert "No plan of the space can have a step more than " in ran.out
    assert f"Written: {out / 'index.html'} (open it in a browser), results.csv" in ran.out
    assert f"simfrontier run {out / 'best.toml'}\n" in ran.out
    assert ran.out.endswith(f"simfrontier explain {out / 'best.toml'} --plan best\n")
    assert "\u00a0" not in ran.out


@pytest.mark.parametrize("width", [80, 120])
def test_tables_fit_the_terminal(width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    folder = tmp_path
    ran = invoke("tune", written(folder), *QUICK, "--out", folder / "out", "--no-page", "--fidelity", "analytic")
    assert ran.code == 0
    tables = ran.out[ran.out.index("Simulated plans (all; fidelity analytic)") : ran.out.index("Chance to be")]
    assert max(map(len, tables.splitlines())) <= width
    assert ("Where the time goes" in tables) == (width == 80)
    assert "…" not in tables  # nothing is cut off
    assert not (folder / "out" / "index.html").exists()
    assert f"Written: {folder / 'out'}: results.csv" in ran.out


# ── files ──


def test_the_folder_has_everything_and_no_store(searched: tuple[Ran, Path]) -> None:
    _, out = searched
    assert sorted(file.name for file in out.iterdir()) == FILES
    table = rows(out)
    assert len(table) == 16 and {row["known"] for row in table} <= {"simulated", "estimated", "ruled out"}
    steps = [float(row["step_time_s"]) for row in table if row["known"] == "simulated"]
    assert 2 < len(steps) <= 5 and steps == sorted(steps)
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert (manifest["file"], manifest["devices"], manifest["batch"]) == ("toy-tune.toml", 8, 16)
    assert manifest["pins"]["pipeline"] == [1, 2] and len(manifest["inputs"]["scenario_sha256"]) == 64
    assert str(out.parent) not in (out / "manifest.json").read_text(encoding="utf-8")


def test_the_best_plans_run_as_they_stand_bit_for_bit(searched: tuple[Ran, Path]) -> None:
    _, out = searched
    text = (out / "best.toml").read_text(encoding="utf-8")
    assert text.startswith("# The best plans that simfrontier ")
    scenario = load_scenario(out / "best.toml")
    assert [*scenario.plans] == ["best", "second", "third"] and scenario.file.run.devices == [8]
    schedule_cache = ScheduleCache()
    for row, plan in zip(rows(out), scenario.plans, strict=False):
        built = schedule_cache.get(scenario, plan, 8)
        step = simulated(scenario.of(plan, 8), built, "flow")
        assert step.step_s == float(row["step_time_nominal_s"])
        assert fullest(step, built.peaks).peak_bytes == int(row["peak_memory_bytes"])


def test_what_is_set_and_tables_of_a_size_go_into_the_best(tmp_path: Path) -> None:
    own = TOY_TUNE + "\n[at.8.model]\nname = 'tiny'\ncheckpointing = 'none'\n[at.4.model]\nname = 'tiny'\n"
    named = own.replace('"toy-cluster"', '"mine.toml"') + '[published]\nsource = "a"\nratios = { zero3 = 1.0 }\n'
    (tmp_path / "mine.toml").write_text('base = "toy-cluster"\nname = "mine"\n', encoding="utf-8")
    given = ("--set", "engine.overlap=false", "--devices", "8", "--fidelity", "analytic", "--no-page")
    ran = invoke("tune", written(tmp_path, named), *QUICK, "--out", tmp_path / "deep" / "out", *given)
    assert ran.code == 0, ran.err
    scenario = load_scenario(tmp_path / "deep" / "out" / "best.toml")  # names the machine as seen from its folder
    assert scenario.machine.name == "mine" and scenario.file.run.fidelity == "analytic"
    assert not scenario.file.engine.overlap and not scenario.checkpointing
    assert not scenario.file.at and scenario.file.published is None
    step = simulated(scenario.of("best", 8), ScheduleCache().get(scenario, "best", 8), "analytic")
    assert step.step_s == float(rows(tmp_path / "deep" / "out")[0]["step_time_nominal_s"])


def test_equal_input_gives_equal_bytes_for_any_number_of_processes(searched: tuple[Ran, Path], tmp_path: Path) -> None:
    _, out = searched
    ran = invoke("tune", out.parent / "toy-tune.toml", *QUICK[:-1], "2", "--out", tmp_path / "again")
    assert ran.code == 0, ran.err
    for name in FILES:
        assert (tmp_path / "again" / name).read_bytes() == (out / name).read_bytes(), name


def test_a_search_that_was_stopped_goes_on(
    searched: tuple[Ran, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, out = searched
    seen: list[str] = []

    def stopping(what: str, done: int, total: int) -> None:
        seen.append(what)
        if what == "simulating the best" and done > 0:
            raise KeyboardInterrupt

    scenario = load_scenario(out.parent / "toy-tune.toml", laid_out=False)
    with pytest.raises(KeyboardInterrupt):
        tune(scenario, pins=PINS, simulate=5, folder=tmp_path / "out", progress=stopping)
    with store_in(tmp_path / "out") as store:
        assert len(store) > 2
    results: list[tuple[str, int]] = []

    def telling(*arguments: Any, **options: Any) -> TuningOutcome:
        progress = options["progress"]

        def both(what: str, done: int, total: int) -> None:
            results.append((what, done))
            progress(what, done, total)

        return tune(*arguments, **{**options, "progress": both})

    monkeypatch.setattr("simfrontier.tuning.tune", telling)
    ran = invoke("tune", out.parent / "toy-tune.toml", *QUICK, "--out", tmp_path / "out")
    assert ran.code == 0, ran.err
    assert dict(reversed(results))["estimating one plan per grid"] > 0  # the first it says: what was known already
    for name in FILES:
        assert (tmp_path / "out" / name).read_bytes() == (out / name).read_bytes(), name
    assert not (tmp_path / "out" / STORE).exists()


def test_fresh_forgets_what_was_known(searched: tuple[Ran, Path], tmp_path: Path) -> None:
    _, out = searched
    (tmp_path / STORE).mkdir()
    message = refusal("tune", out.parent / "toy-tune.toml", *QUICK, "--out", tmp_path, "--fresh")
    assert message.startswith(f"{tmp_path / STORE}: cannot be removed: ")
    (tmp_path / STORE).rmdir()
    (tmp_path / STORE).write_text("of another search", encoding="utf-8")
    ran = invoke("tune", out.parent / "toy-tune.toml", *QUICK, "--out", tmp_path, "--fresh", "--no-page")
    assert ran.code == 0 and sorted(file.name for file in tmp_path.iterdir()) == sorted({*FILES} - {"index.html"})


def test_a_full_disk_keeps_what_was_searched(searched: tuple[Ran, Path], tmp_path: Path) -> None:
    """A limit of the size of files stands for a full disk: of the store first, then of the results."""
    _, out = searched
    command = ("tune", out.parent / "toy-tune.toml", *QUICK, "--out", tmp_path)
    for limit in (1500, 30_000):
        code = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))"
        code += "; from simfrontier.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, command)], capture_output=True, text=True, cwd=ROOT
        )
        assert (done.returncode, done.stdout) == (2, ""), done
        assert "cannot be written: " in done.stderr and done.stderr.count("\n") == 1, done.stderr
        assert {file.name for file in tmp_path.iterdir()} <= {STORE, f"{STORE}-journal"}
    assert invoke(*command).code == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == FILES
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (out / name).read_bytes(), name


def test_a_folder_in_the_place_of_a_result_is_refused_before_the_search(
    searched: tuple[Ran, Path], tmp_path: Path
) -> None:
    _, out = searched
    (tmp_path / "results.csv").mkdir()
    message = refusal("tune", out.parent / "toy-tune.toml", *QUICK, "--out", tmp_path)
    assert message == f"--out {tmp_path}: cannot be written: results.csv is a folder there; allowed: a file, or none"
    assert [file.name for file in tmp_path.iterdir()] == ["results.csv"]


# ── for a program ──


def test_json_has_the_counts_and_the_rows(searched: tuple[Ran, Path], tmp_path: Path) -> None:
    _, out = searched
    ran = invoke("tune", out.parent / "toy-tune.toml", *QUICK, "--out", tmp_path / "out", "--json", "--no-page")
    assert (ran.code, ran.err) == (0, "")
    result = json.loads(ran.out)
    assert (result["total"], result["batch"], result["lossy"]) == (16, 16, False)
    assert result["simulated"] == sum(row["known"] == "simulated" for row in result["plans"])
    assert [row["plan"] for row in result["plans"]] == [row["plan"] for row in rows(out)]
    assert result["plans"][0]["step_time_s"] == float(rows(out)[0]["step_time_s"])
    assert result["plans"][-1]["chance_fastest"] is None
    assert [own["plan"] for own in result["own"]] == ["zero3", "odd"] and result["own"][1]["step_time_s"] is None
    assert 0.0 <= result["headroom"] < 1.0 and len(result["errors"]) == 2 and result["why"]


# ── bad input ──

SEARCHED = ", ".join(sorted(("analytic", "flow", *grid_orders())))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--pin", "tenser=2"), "--pin: 'tenser' is no dimension of a plan; did you mean \"tensor\"?"),
        (("--pin", "tensor"), "--pin 'tensor': write dimension=value or dimension=value,value, e.g. tensor=4,8"),
        (("--pin", "tensor=two"), "--pin tensor: got 'two'; allowed: numbers from 1 to 1,048,576"),
        (("--pin", "tensor=0"), "--pin tensor: got '0'; allowed: numbers from 1 to 1,048,576"),
        (("--pin", "states=zero4"), "--pin states: got 'zero4'; did you mean \"zero3\"?"),
        (("--pin", "copy=yes"), "--pin copy: got 'yes'; allowed: true, false"),
        (
            ("--pin", "codec=weights"),
            "tune.pin.codec: 'weights' loses precision; allow it with --lossy (tune.lossy = true), or --max-error",
        ),
        (("--fidelity", "chunk"), f"--fidelity: got 'chunk'; allowed: {SEARCHED}"),
        (("--fidelity", "flows"), "--fidelity: got 'flows'; did you mean \"flow\"?"),
        (("--devices", "0"), "--devices: got '0'; allowed: numbers of devices separated by commas, e.g. 8,64,384"),
        (
            ("--set", "run.fidelity=chunk"),
            f"{TOY}: run.fidelity: got 'chunk'; allowed in a search: flow, analytic (--fidelity)",
        ),
        (("--set", "tune.pim=1"), f'{TOY}: tune.pim: unknown key; did you mean "pin"?'),
    ],
)
def test_a_mistake_is_one_line(more: tuple[str, ...], message: str, tmp_path: Path) -> None:
    out = () if any("axonn" in word for word in more) else ("--out", tmp_path / "out")
    assert refusal("tune", TOY, *more, *out) == message
    assert not (tmp_path / "out").exists()


def test_a_pin_that_does_not_divide_says_what_would_open_the_space(tmp_path: Path) -> None:
    message = refusal("tune", written(tmp_path), "--pin", "tensor=3", "--out", tmp_path / "out", "--jobs", "1")
    start = f"{tmp_path / 'toy-tune.toml'}: tune: at 8 devices: no plan can run with tensor = 3: "
    assert message.startswith(start) and "; smallest change that opens the space: " in message
    assert not (tmp_path / "out").exists()


def test_where_nothing_fits_the_answer_is_no(tmp_path: Path) -> None:
    small = ("--set", "machine.overrides.device.hbm_bytes=2e4", "--pin", "family=zero", "--jobs", "1")
    ran = invoke("tune", written(tmp_path), *small, "--out", tmp_path / "out")
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert "plans fits into memory with family = zero: the smallest needs at least " in ran.err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    message = refusal("tune", written(tmp_path), "--out", tmp_path / "file")
    assert message.startswith(f"--out {tmp_path / 'file'}: cannot be written: ")


def test_where_writing_fails_nothing_is_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from simfrontier.errors import InputError

    def fails(*_: object) -> None:
        raise InputError("the disk is full")

    monkeypatch.setattr("simfrontier.report.tuning.tuning_page", fails)
    quick = (*QUICK, "--fidelity", "analytic")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "best.toml").write_text("mine", encoding="utf-8")
    message = refusal("tune", written(tmp_path), *quick, "--out", tmp_path / "out")
    assert message == f"the disk is full; {STORE} stays: the same command goes on from there"
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["best.toml", STORE]
    assert (tmp_path / "out" / "best.toml").read_text(encoding="utf-8") == "mine"
