"""`show` and `check` of scenarios and schedule files: what they print and save, the faults they name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.invoke import TOY, Change, changed_json, invoke, refusal


def saved(folder: Path, *options: str) -> Path:
    """A good schedule file."""
    path = folder / "schedule.json"
    ran = invoke("show", TOY, "--save", path, *options)
    assert (ran.code, ran.err) == (0, "")
    return path


def changed(folder: Path, change: Change, *options: str) -> Path:
    """A schedule file of which somebody has changed something."""
    path = saved(folder, *options)
    return changed_json(path, path, change)


# ── show ──


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
    ("options", "message"),
    [
        (("--plan", "zero4"), f'{TOY}: plans: got "zero4"; did you mean "zero3"?'),
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
def test_show_refuses_what_is_not_there(options: tuple[str, ...], message: str) -> None:
    assert refusal("show", TOY, *options) == message


def test_show_saves_nothing_where_it_cannot_write(tmp_path: Path) -> None:
    allowed = "allowed: a file in a folder you may write"
    message = refusal("show", TOY, "--save", tmp_path / "no" / "schedule.json")
    assert message == f"{tmp_path}/no/schedule.json: cannot be written: No such file or directory; {allowed}"
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
    message = f"{option}: got '{value}' for {path}, a schedule; allowed: only with a scenario (TOML)"
    assert refusal(verb, path, option, value) == message


def test_a_schedule_that_names_what_is_not_there_cannot_be_shown(tmp_path: Path) -> None:
    path = changed(tmp_path, lambda form: form["ops"][0].update(reads=["nothing"]))
    message = refusal("show", path)
    assert message.startswith(f"{path}: cannot be shown: references: ") and "nothing" in message


# ── check ──


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


@pytest.mark.parametrize("capacity", ["nan", "0", "-1", "inf"])
def test_a_capacity_is_a_number_of_bytes(tmp_path: Path, capacity: str) -> None:
    message = refusal("check", saved(tmp_path), "--capacity", capacity)
    allowed = "less than or equal to 1000000000000000" if capacity in ("inf", "nan") else "greater than or equal to 1"
    assert message == f"check: Invalid value for '--capacity': Input should be {allowed}"


def _collective(form: dict[str, Any]) -> dict[str, Any]:
    op: dict[str, Any] = next(op for op in form["ops"] if op["kind"] == "all_gather")
    return op


def _block_of(form: dict[str, Any], kind: str) -> list[int]:
    """The first block in which an op of that kind stands."""
    block: list[int] = next(b for b in form["blocks"] if any(form["ops"][i]["kind"] == kind for i in b))
    return block


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
    ("change", "message"),
    [
        (lambda form: form.update(version=1), "version: got 1, allowed: 2, which this simfrontier reads"),
        (lambda form: form.update(format="x"), 'format: got "x", allowed: "simfrontier.schedule", of a schedule'),
        (lambda form: form.pop("ops"), "ops: missing"),
        (lambda form: form.update(opps=[]), 'opps: unknown key; did you mean "ops"?'),
        (lambda form: _collective(form).update(codec="int8"), "codec 'int8': write int8:BLOCK"),
        (lambda form: _collective(form).update(via="rings"), 'got "rings"; did you mean "ring"?'),
        (lambda form: form["mesh"][0].__setitem__(1, 0), "mesh[0][1]: got 0, allowed: 1 or more"),
        (lambda form: form["blocks"][0].append(10**6), "blocks[0][5]: got 1000000, allowed: 0 or more, up to "),
        (lambda form: form["meta"].update(batch=1.5), "got 1.5, allowed: whole numbers alone (a trace has others)"),
    ],
)
def test_a_file_that_is_no_schedule_names_the_place(tmp_path: Path, change: Change, message: str) -> None:
    path = changed(tmp_path, change)
    for verb in ("check", "show"):
        got = refusal(verb, path)
        assert got.startswith(f"{path}: ") and message in got


@pytest.mark.parametrize("kept", [0, 1, 100, 0.5, 0.999])
def test_a_truncated_file_names_the_place(tmp_path: Path, kept: float) -> None:
    path = saved(tmp_path)
    text = path.read_text(encoding="ascii").rstrip()
    path.write_text(text[: int(kept * len(text)) if isinstance(kept, float) else kept], encoding="ascii")
    for verb in ("check", "show"):
        assert refusal(verb, path).startswith(f"{path}: line 1 column ")


def test_files_that_are_not_there_or_not_text(tmp_path: Path) -> None:
    message = refusal("check", tmp_path / "no.json")
    assert message == f"{tmp_path}/no.json: cannot read this schedule: No such file or directory"
    (tmp_path / "binary.json").write_bytes(b"\x80\x00")
    assert refusal("check", tmp_path / "binary.json") == (
        f"{tmp_path}/binary.json: not a schedule: byte 0 is not UTF-8 text"
    )
    (tmp_path / "deep.json").write_text("[" * 100_000, encoding="ascii")
    assert refusal("check", tmp_path / "deep.json") == f"{tmp_path}/deep.json: not a schedule: nested too deeply"
    (tmp_path / "folder.json").mkdir()
    message = refusal("check", tmp_path / "folder.json")
    assert message == f"{tmp_path}/folder.json: cannot read this schedule: Is a directory"
