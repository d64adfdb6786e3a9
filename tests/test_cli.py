"""The command line: exit codes, one clear line for a mistake, and nothing half-written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simfrontier.errors import SimfrontierError
from tests.invoke import ROOT, TOY, invoke, refusal

Change = Callable[[dict[str, Any]], object]


def in_a_process(*arguments: str, code: str = "from simfrontier.cli import main; main()") -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a process of its own, in the repository's root."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout, done.stderr


# ── end to end ──


def test_a_run_ends_with_0_and_writes_its_folder(tmp_path: Path) -> None:
    code, out, err = in_a_process(
        "run", "scenarios/toy.toml", "--plans", "zero3", "--devices", "2", "--out", str(tmp_path)
    )
    assert (code, err) == (0, "")
    assert "results.csv" in out and "0." in out
    assert sorted(os.listdir(tmp_path)) == ["index.html", "manifest.json", "results.csv", "trace-zero3-2.json"]


def test_a_mistake_ends_with_2_and_one_line(tmp_path: Path) -> None:
    code, out, err = in_a_process("run", "scenarios/toy.toml", "--plans", "zero4", "--out", str(tmp_path / "out"))
    assert (code, out) == (2, "")
    assert err == "simfrontier: scenarios/toy.toml: plans: 'zero4' is unknown; did you mean \"zero3\"?\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("arguments", [(), ("--help",), ("run", "--help")])
def test_help_imports_nothing_slow(arguments: tuple[str, ...]) -> None:
    code = (
        "import sys, atexit, simfrontier.cli\n"
        "slow = {'numpy', 'pandas', 'plotly', 'pydantic', 'scipy', 'simpy', 'dask', 'torch'}\n"
        "assert not slow & set(sys.modules), slow & set(sys.modules)\n"
        "atexit.register(lambda: sys.stderr.write(f'slow: {sorted(slow & set(sys.modules))}'))\n"
        "simfrontier.cli.main()"
    )
    _, out, err = in_a_process(*arguments, code=code)
    assert "Usage:" in out + err
    # typer itself needs pydantic for the parameters of a verb
    assert err.endswith("slow: []") or ("run" in arguments and err.endswith("slow: ['pydantic']"))


# ── mistakes on the command line ──


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--devices", "eight", "--devices: got 'eight'"),
        ("--devices", "8,-4", "--devices: got '8,-4'"),
        ("--devices", "8;16", "--devices: got '8;16'"),
        ("--devices", "1.5", "--devices: got '1.5'"),
        ("--devices", "0", "--devices: got '0'"),
        ("--devices", "", "--devices: got ''"),
        ("--devices", "9" * 5000, "--devices: got '999"),
    ],
)
def test_sizes_are_numbers(tmp_path: Path, option: str, value: str, said: str) -> None:
    got = refusal("run", TOY, option, value, "--out", tmp_path / "out")
    assert got.startswith(said)
    assert got.endswith("; allowed: numbers of devices separated by commas, e.g. 8,64,384")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--devices", "8,8"), f"{TOY}: run.devices: got 8 twice, allowed: every size once"),
        (
            ("--devices", "128"),
            f"{TOY}: run.devices: 128 devices do not fill whole nodes of toy-cluster (16 nodes of 4 devices), use 64",
        ),
        (("--fidelity", "flo"), "--fidelity: got 'flo'; did you mean \"flow\"?"),
        (("--fidelity", "fast"), "--fidelity: got 'fast'; allowed: analytic, chunk, flow"),
        (("--set", "training"), "--set 'training': write key=value, e.g. training.micro_batch=4"),
    ],
)
def test_each_bad_option_is_one_clear_line(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    assert refusal("run", TOY, "--out", tmp_path / "out", *options) == said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("run",),
        ("run", str(TOY), "--job", "2"),
        ("run", str(TOY), "--jobs", "0"),
        ("run", str(TOY), "--jobs", "-1"),
        ("run", str(TOY), "--jobs", "two"),
        ("show", str(TOY), "--devices", "many"),
        ("check", str(TOY), "--capacity", "64GB"),
        ("simulate",),
    ],
)
def test_what_the_parser_refuses_ends_with_2(arguments: tuple[str, ...]) -> None:
    ran = invoke(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert "Traceback" not in ran.err and "Error" in ran.err


@pytest.mark.parametrize(
    ("part", "reason"), [("file", "Not a directory"), ("file/below", "Not a directory"), ("/proc/new", "No such file")]
)
def test_an_output_folder_that_cannot_be_written(tmp_path: Path, part: str, reason: str) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    out = tmp_path / part
    said = refusal("run", TOY, "--out", out)
    assert said.startswith(f"--out {out}: cannot be written: {reason}")
    assert said.endswith("; allowed: a folder that you may write, or a name for a new one")
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_read_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    said = refusal("run", TOY, "--out", tmp_path / "out")
    assert said.startswith(f"--out {tmp_path}/out: cannot be written: Permission denied; allowed: ")


def test_brackets_in_titles_mean_themselves(tmp_path: Path) -> None:
    ran = invoke("run", TOY, "--set", "title=a [/b] :cat:", "--plans", "zero3", "--devices", "2", "--out", tmp_path)
    assert (ran.code, ran.err) == (0, "")
    assert "[/b] :cat:" in " ".join(ran.out.split())


def test_an_error_of_ones_own_ends_with_1_and_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def stuck(*_: object) -> None:
        raise SimfrontierError("the step is stuck:\nrank class 0 waits")

    monkeypatch.setattr("simfrontier.commands.run.run_study", stuck)
    ran = invoke("run", TOY, "--out", tmp_path / "out")
    assert (ran.code, ran.out, ran.err) == (1, "", "simfrontier: the step is stuck: rank class 0 waits\n")
    assert not (tmp_path / "out").exists()


# ── show ──


def saved(folder: Path, *options: str) -> Path:
    """A good schedule file."""
    path = folder / "schedule.json"
    ran = invoke("show", TOY, "--save", path, *options)
    assert (ran.code, ran.err) == (0, "")
    return path


def test_show_prints_a_schedule_and_saves_it(tmp_path: Path) -> None:
    path = saved(tmp_path, "--plan", "zero-topo", "--devices", "8")
    assert json.loads(path.read_text(encoding="utf-8"))["meta"]["plan"] == "zero-topo"
    direct = invoke("show", TOY, "--plan", "zero-topo", "--devices", "8")
    assert invoke("show", path) == direct
    assert "zero-topo" in direct.out and "all_gather" in direct.out.replace("-", "_")


def test_show_takes_the_first_plan_at_the_smallest_size(tmp_path: Path) -> None:
    form = json.loads(saved(tmp_path).read_text(encoding="utf-8"))
    assert form["meta"]["plan"] == "zero3"
    assert dict(form["mesh"]) == {"node": 1, "package": 1, "gcd": 2}


def test_show_lists_links_by_the_names_that_perturbations_take() -> None:
    ran = invoke("show", TOY, "--links")
    assert ran.code == 0
    assert "xgmi 0>1" in ran.out


def test_show_lists_volumes() -> None:
    ran = invoke("show", TOY, "--volumes", "--plan", "zero3", "--devices", "8")
    assert (ran.code, ran.err) == (0, "")
    assert "weight_gather" in ran.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--plan", "zero4"), f"{TOY}: plans: 'zero4' is unknown; did you mean \"zero3\"?"),
        (
            ("--devices", "6"),
            f"{TOY}: run.devices: 6 devices do not fill whole nodes of toy-cluster (16 nodes of 4 devices), use 4 or 8",
        ),
        (
            ("--devices", "0"),
            "--devices: got '0'; allowed: numbers of devices separated by commas, e.g. 8,64,384",
        ),
    ],
)
def test_show_refuses_what_is_not_there(options: tuple[str, ...], said: str) -> None:
    assert refusal("show", TOY, *options) == said


def test_show_saves_nothing_where_it_cannot_write(tmp_path: Path) -> None:
    allowed = "allowed: a file in a folder you may write"
    said = refusal("show", TOY, "--save", tmp_path / "no" / "schedule.json")
    assert said == f"{tmp_path}/no/schedule.json: cannot be written: No such file or directory; {allowed}"
    assert refusal("show", TOY, "--save", tmp_path) == f"{tmp_path}: cannot be written: Is a directory; {allowed}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("verb", "option", "value"),
    [
        ("show", "--plan", "zero3"),
        ("show", "--devices", "8"),
        ("check", "--plans", "zero3"),
        ("check", "--devices", "8"),
    ],
)
def test_a_schedule_file_leaves_nothing_to_choose(tmp_path: Path, verb: str, option: str, value: str) -> None:
    path = saved(tmp_path)
    said = f"{option}: got '{value}' for {path}, a schedule; allowed: only with a scenario (TOML)"
    assert refusal(verb, path, option, value) == said


def test_a_schedule_that_names_what_is_not_there_cannot_be_shown(tmp_path: Path) -> None:
    path = changed(tmp_path, lambda form: form["ops"][0].update(reads=["nothing"]))
    said = refusal("show", path)
    assert said.startswith(f"{path}: cannot be shown: references: ") and "nothing" in said


# ── check ──


def changed(folder: Path, change: Change, *options: str) -> Path:
    """A schedule file of which somebody has changed something."""
    path = saved(folder, *options)
    form = json.loads(path.read_text(encoding="utf-8"))
    change(form)
    path.write_text(json.dumps(form), encoding="utf-8")
    return path


def test_check_ends_with_0_for_a_sound_schedule(tmp_path: Path) -> None:
    path = saved(tmp_path)
    ran = invoke("check", path)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"{path}: sound (digest ")


def test_check_of_a_scenario_is_of_every_plan_at_every_size() -> None:
    ran = invoke("check", TOY, "--devices", "2,8", "--json")
    assert ran.code == 0
    rows = json.loads(ran.out)
    assert len(rows) == 16 and not any(row["findings"] for row in rows)
    assert [row["schedule"] for row in rows[:3]] == ["zero3 on 2", "zero3 on 8", "ddp on 2"]


def test_check_says_what_does_not_fit(tmp_path: Path) -> None:
    path = saved(tmp_path)
    assert invoke("check", path, "--capacity", "16e9").code == 0
    ran = invoke("check", path, "--capacity", "1000")
    assert ran.code == 1
    assert f"{path}: 1 findings" in ran.out and "memory: " in ran.out and "at most 1000 bytes" in ran.out


@pytest.mark.parametrize("capacity", ["nan", "inf", "0", "-1"])
def test_a_capacity_is_a_number_of_bytes(tmp_path: Path, capacity: str) -> None:
    said = refusal("check", saved(tmp_path), "--capacity", capacity)
    assert said == f"--capacity: got {float(capacity)}; allowed: a number of bytes greater than 0, e.g. 64e9"


def _collective(form: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(op for op in form["ops"] if op["kind"] == "all_gather")
    return found


def _block_of(form: dict[str, Any], kind: str) -> list[int]:
    """The first block in which an op of that kind stands."""
    found: list[int] = next(b for b in form["blocks"] if any(form["ops"][i]["kind"] == kind for i in b))
    return found


def _drop(form: dict[str, Any], kind: str) -> None:
    block = _block_of(form, kind)
    block.remove(next(i for i in block if form["ops"][i]["kind"] == kind))


def _twice(form: dict[str, Any], kind: str) -> None:
    block = _block_of(form, kind)
    number = next(i for i in block if form["ops"][i]["kind"] == kind)
    block.insert(block.index(number), number)


MUTATIONS: list[tuple[str, Change, str, str]] = [
    ("unknown tensor", lambda form: form["ops"][0].update(reads=["nothing"]), "references: ", "nothing"),
    ("unknown axis", lambda form: _collective(form).update(axes=["rack"]), "references: ", "all_gather"),
    ("other kind", lambda form: _collective(form).update(kind="all_reduce"), "placements: ", "all_reduce"),
    ("gather left out", lambda form: _drop(form, "all_gather"), "references: ", "no op writes it"),
    ("reduction left out", lambda form: _drop(form, "reduce_scatter"), "sums: ", "grad: nothing"),
    ("summed twice", lambda form: _twice(form, "accumulate"), "sums: ", "micro-batch 0 twice"),
    ("optimizer left out", lambda form: _drop(form, "adam"), "sums: ", "one adam per step"),
    ("backwards", lambda form: max(form["blocks"], key=len).reverse(), "references: ", "written by an op before"),
    ("other mesh", lambda form: form.update(mesh=[["rank", 2]]), "placements: ", "axis"),
]


@pytest.mark.parametrize(("change", "rule", "named"), [m[1:] for m in MUTATIONS], ids=[m[0] for m in MUTATIONS])
def test_check_names_the_op_of_a_mutated_schedule(tmp_path: Path, change: Change, rule: str, named: str) -> None:
    path = changed(tmp_path, change, "--devices", "8")
    ran = invoke("check", path)
    assert (ran.code, ran.err) == (1, ""), ran
    first, *findings = ran.out.splitlines()
    assert " findings (digest " in first and first.startswith(f"{path}: ")
    assert findings and any(rule in line and named in line for line in findings), ran.out
    assert all("expected" in line and "found" in line for line in findings)
    again = invoke("check", path, "--json")
    assert again.code == 1
    assert json.loads(again.out)[0]["findings"] == [line.strip() for line in findings]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda form: form.update(version=2), "version 2; this simfrontier reads version 1"),
        (lambda form: form.update(format="x"), 'not a schedule: "format" is not "simfrontier.schedule"'),
        (lambda form: form.pop("ops"), "key 'ops' is missing"),
        (lambda form: form.update(opps=[]), "unknown key 'opps'; did you mean \"ops\"?"),
        (lambda form: _collective(form).update(codec="int8"), "codec 'int8': write int8:BLOCK"),
        (lambda form: _collective(form).update(via="rings"), "unknown 'rings'; did you mean \"ring\"?"),
        (lambda form: form["mesh"][0].__setitem__(1, 0), "mesh[0][1]: 0 is out of range; allowed: 1 or more"),
        (lambda form: form["blocks"][0].append(10**6), "is out of range; allowed: 0 or more, up to"),
        (lambda form: form["meta"].update(batch=1.5), "1.5 is not a whole number; a schedule holds no others"),
    ],
)
def test_a_file_that_is_no_schedule_names_the_place(tmp_path: Path, change: Change, said: str) -> None:
    path = changed(tmp_path, change)
    for verb in ("check", "show"):
        got = refusal(verb, path)
        assert got.startswith(f"{path}: ") and said in got


@pytest.mark.parametrize("kept", [0, 1, 100, 0.5, 0.999])
def test_a_truncated_file_names_the_place(tmp_path: Path, kept: float) -> None:
    path = saved(tmp_path)
    text = path.read_text(encoding="ascii").rstrip()
    path.write_text(text[: int(kept * len(text)) if isinstance(kept, float) else kept], encoding="ascii")
    for verb in ("check", "show"):
        assert refusal(verb, path).startswith(f"{path}: line 1 column ")


def test_files_that_are_not_there_or_not_text(tmp_path: Path) -> None:
    said = refusal("check", tmp_path / "no.json")
    assert said == f"{tmp_path}/no.json: cannot read the schedule: No such file or directory"
    (tmp_path / "binary.json").write_bytes(b"\x80\x00")
    assert refusal("check", tmp_path / "binary.json") == (
        f"{tmp_path}/binary.json: not a schedule: byte 0 is not UTF-8 text"
    )
    (tmp_path / "deep.json").write_text("[" * 100_000, encoding="ascii")
    assert refusal("check", tmp_path / "deep.json") == f"{tmp_path}/deep.json: not a schedule: nested too deeply"
    (tmp_path / "folder.json").mkdir()
    said = refusal("check", tmp_path / "folder.json")
    assert said == f"{tmp_path}/folder.json: cannot read the schedule: Is a directory"


# ── doctor ──


def test_doctor_finds_everything_that_is_needed() -> None:
    ran = invoke("doctor")
    assert (ran.code, ran.err) == (0, "")
    assert all(line.startswith("ok  ") for line in ran.out.splitlines())


def test_doctor_speaks_json_and_simulates_a_step() -> None:
    ran = invoke("doctor", "--json")
    found = {row["what"]: row for row in json.loads(ran.out)}
    assert ran.code == 0
    assert all(row["works"] for row in found.values())
    assert "frontier" in found["machines"]["found"] and "rccl" in found["libraries"]["found"]
    assert found["simulation"]["found"].startswith("one step of a tiny model on 2 devices takes ")


def test_doctor_ends_with_1_where_something_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> str:
        raise SimfrontierError("no luck")

    monkeypatch.setattr("simfrontier.commands.doctor._simulate", broken)
    ran = invoke("doctor")
    assert ran.code == 1
    assert [line.split() for line in ran.out.splitlines() if line.startswith("MISS")] == [
        ["MISS", "simulation", "no", "luck"]
    ]
