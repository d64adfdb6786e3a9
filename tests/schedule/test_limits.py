"""Small schedule files that mean unbounded work: counted before anything is expanded, refused in one line."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simfrontier.errors import InputError, near, nearest
from simfrontier.limits import COMPARED_CHARACTERS, LARGE, OPERANDS_OF_OP, RANKS, USUAL
from simfrontier.schedule import from_json, to_json
from simfrontier.schedule.ir import Call, Ref, Schedule
from simfrontier.schedule.loops import expanded, folded, num_calls
from simfrontier.schedule.repeated_refs import RepeatedRefs, refs_of_run, runs_of_refs
from tests.limited import limited, limited_refusal
from tests.schedule.builders import mesh_of, options_of, schedule_of

Edit = Callable[[dict[str, Any]], object]


def small() -> Schedule:
    return schedule_of(options_of("ddp"), mesh_of(1, 2, 2))


def written(folder: Path, edit: Edit) -> Path:
    form = json.loads(to_json(small()))
    edit(form)
    path = folder / "s.json"
    path.write_text(json.dumps(form), encoding="utf-8")
    return path


def looped(times: int, items: list[Any]) -> list[Any]:
    return [{"times": times, "layers": 0, "micros": 0, "calls": items}]


def one_op_calls(times: int) -> list[Any]:
    return looped(times, [["x", 0, 0, 0]])


def calls(form: dict[str, Any], items: list[Any]) -> None:
    form["blocks"][0] = form["blocks"][0][:1]
    form["roles"][0]["calls"] = items


def many_roles(form: dict[str, Any], count: int = 2_000) -> None:
    form["mesh"][0][1] = count
    role = form["roles"][0]
    form["roles"] = [{**role, "name": f"r{i}", "at": [form["mesh"][0][0], i]} for i in range(count)]


def many_tensors_of_roles(form: dict[str, Any]) -> None:
    tokens = form["tensors"]["tokens"]
    form["tensors"] |= {f"tokens_{i}": tokens for i in range(6_000 - len(form["tensors"]))}
    many_roles(form, 400)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda form: calls(form, one_op_calls(999_999)), "roles[0].calls: the loops mean 999,999 calls"),
        (
            lambda form: calls(form, looped(10**9, one_op_calls(10**4000))),
            "roles[0].calls: the loops mean more than 1e+18",
        ),
        (
            lambda form: form["roles"][0].update(calls=looped(8_000, form["roles"][0]["calls"])),
            "roles[0].calls: the loops mean ",
        ),
        (
            lambda form: form["ops"][0].update(reads=[[100_000, ["tokens"], 0]] * 400),
            "ops[0].reads: 40,000,000 operands of an op; allowed: up to 200,000",
        ),
        (
            lambda form: [op.update(reads=[[190_000, ["tokens"], 0]]) for op in form["ops"] if "reads" in op],
            "operands; allowed: up to 2,000,000",
        ),
        (lambda form: form["mesh"][0].__setitem__(1, 10**18), "mesh: more than 1e+18 ranks"),
        (lambda form: form["mesh"].extend([f"a{i}", 1] for i in range(60)), "mesh: 63 axes; allowed: up to 16"),
        (
            lambda form: form["tensors"]["tokens"].update(shape=[10**600]),
            "tensors.tokens.shape[0]: got 1000",
        ),
        (
            lambda form: form["tensors"]["tokens"].update(pool="ba" * 5_000),
            "tensors.tokens.pool: 10,000 characters in a name; allowed: up to 256",
        ),
        (many_roles, "roles: 2,000 roles; allowed: up to 1,000"),
        (many_tensors_of_roles, "roles: 2,400,000 tensors of all roles; allowed: up to 2,000,000"),
        (
            lambda form: form["tensors"]["tokens"].update(codec="int8:" + "9" * 5_000),
            "tensors.tokens.codec: 5,005 characters in a text; allowed: up to 4,096",
        ),
        (
            lambda form: form["tensors"]["tokens"].update(placement=f"gcd:shard({'9' * 5_000})"),
            "tensors.tokens.placement: 5,011 characters in a text; allowed: up to 4,096",
        ),
        (lambda form: form["meta"].update(batch=10**4_000), "meta.batch: got 1000"),
    ],
)
def test_what_means_too_much_is_refused_before_it_is_expanded(edit: Edit, message: str, tmp_path: Path) -> None:
    text = limited_refusal("check", written(tmp_path, edit))
    assert message in text and len(text) < 500


def test_a_key_that_stands_twice_is_found_in_linear_time(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text("{" + ",".join(f'"a{i}":0' for i in range(60_000)) + ',"a59999":0}', encoding="utf-8")
    assert limited_refusal("check", path).endswith('not a schedule: key "a59999" stands twice in one object')


def test_a_file_that_is_too_large_is_read_no_further(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    with path.open("wb") as file:
        file.truncate(64 << 20)
    assert limited_refusal("check", path).endswith("allowed: up to 33,554,432 in such a file")


def test_thousands_of_unknown_names_are_told_without_looking_all_of_them_up(tmp_path: Path) -> None:
    def edit(form: dict[str, Any]) -> None:
        for i in range(20_000):
            form["tensors"][f"tokens_{i}"] = form["tensors"]["tokens"]
        form["ops"][0]["reads"] = [f"tokenz_{i}" for i in range(20_000)]

    ran = limited("check", written(tmp_path, edit))
    assert ran.code == 1 and "'tokenz_19999'" in ran.out and ran.err == ""


def test_yes_large_raises_the_budget_and_names_it() -> None:
    form = json.loads(to_json(small()))
    calls(form, one_op_calls(USUAL.calls.most + 1))
    with pytest.raises(InputError, match="take more with --yes-large"):
        from_json(json.dumps(form), "s.json")
    assert len(from_json(json.dumps(form), "s.json", large=True).roles[0].calls) == USUAL.calls.most + 1
    calls(form, one_op_calls(LARGE.calls.most + 1))
    with pytest.raises(InputError, match=r"allowed: up to 4,000,000$"):
        from_json(json.dumps(form), "s.json", large=True)


def test_what_is_just_within_the_budget_is_read() -> None:
    form = json.loads(to_json(small()))
    form["mesh"][0][1] = RANKS.most // 4
    form["ops"][0]["reads"] = [[OPERANDS_OF_OP.most, ["tokens"], 0]]
    calls(copy.deepcopy(form), one_op_calls(2))
    assert from_json(json.dumps(form), "s.json").mesh.num_ranks == RANKS.most


# ── names ──


def test_the_nearest_name_is_looked_for_among_few_and_short_ones() -> None:
    many = [f"name_{i:05}" for i in range(50_000)]
    assert near("name_31416x", many) == "name_31416"
    assert nearest("NAME_00007", many) == 'did you mean "name_00007"?'
    assert near("x" * (COMPARED_CHARACTERS + 1), ["x" * COMPARED_CHARACTERS]) is None
    assert len(nearest("a" * 10_000, ["b" * 10_000])) < 100


# ── the stored form, in little time ──


def test_calls_that_do_not_repeat_fold_to_themselves() -> None:
    """50,000 different calls: comparing every period position by position would take an hour."""
    made = tuple(Call(f"x{i}", 0, 0, (), 0) for i in range(50_000))
    assert folded(made, (0,)) == made
    loop = folded(made[:1_000] * 300, (0,))
    assert len(loop) == 1 and num_calls(loop) == 300_000 and tuple(expanded(loop)) == made[:1_000] * 300


def test_operands_that_do_not_repeat_stay_as_they_are() -> None:
    refs = tuple(Ref(f"n{i}") for i in range(50_000))
    assert runs_of_refs(refs) == list(refs)
    nearly = (*refs, *refs[:-1], Ref("other"))
    runs = runs_of_refs(nearly)
    assert (
        tuple(ref for run in runs for ref in (refs_of_run(run) if isinstance(run, RepeatedRefs) else [run])) == nearly
    )
