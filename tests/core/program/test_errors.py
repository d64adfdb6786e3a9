"""Stored schedules that are wrong, and texts of codecs: each class once, by its place and what is allowed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simfrontier.base.errors import InputError
from simfrontier.core.codecs import parse_codec
from simfrontier.core.program import from_json, load, to_json
from simfrontier.core.program.store import MOST_OPS
from tests.core.plan.grids import megatron, other, schedule_of as grid_of
from tests.core.program.builders import mesh_of, options_of, schedule_of

Edit = Callable[[Any], object]
PIPELINE = grid_of(megatron(1, 3, overlap_exchange=True), 6, shape=other(num_layers=3), micros=2)


def loop(times: int, calls: list[Any], layers: int = 0) -> dict[str, Any]:
    return {"times": times, "layers": layers, "micros": 0, "calls": calls}


def op_of(form: Any, kind: str) -> Any:
    return next(op for op in form["ops"] if op["kind"] == kind)


def top(**fields: Any) -> Edit:
    return lambda form: form.update(fields)


def in_tensor(**fields: Any) -> Edit:
    return lambda form: form["tensors"]["x"].update(fields)


def in_op(of: str, /, **fields: Any) -> Edit:
    return lambda form: op_of(form, of).update(fields)


def in_calls(*calls: Any) -> Edit:
    return lambda form: form["roles"][0].update(calls=list(calls))


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (top(pears=1), "pears: unknown key; allowed: blocks"),
        (top(version=99), "version: got 99"),
        (top(mesh=[["node", 0]]), "mesh[0][1]: got 0, allowed: 1 or more"),
        (in_tensor(dims=["b"]), "tensors.x.dims: 1 labels; the shape has 3 dimensions"),
        (in_tensor(dtype="fp17"), 'tensors.x.dtype: got "fp17"; did you mean "fp16"?'),
        (in_tensor(placement="node:flat gcd:slab"), "tensors.x.placement: placement 'node:flat gcd:slab'"),
        (in_tensor(pool="dead"), 'tensors.x.pool: got "dead"; allowed: live'),
        (in_tensor(persistent=1), "tensors.x.persistent: got 1, allowed: true or false"),
        (in_op("matmul", part="dgrid"), '.part: got "dgrid"; did you mean "dgrad"?'),
        (in_op("matmul", flops=-1), ".flops: got -1, allowed: 0 or more"),
        (in_op("gelu", kernel="two-pass"), "kernel: is of loss and softmax only"),
        (in_op("all_gather", src=[]), ": 0 src, but 1 dst; they pair up"),
        (in_calls(["a", 999, 0, 0]), "roles[0].calls[0][1]: got 999, allowed: "),
        (in_calls(loop(3, [["a", 0, 1, 0]], layers=-1)), "the loops lead to layer or micro-batch -1"),
        (in_calls(loop(2, [])), "roles[0].calls[0].calls: a loop of no calls; allowed: one call"),
        (in_calls(loop(10**6, [loop(10**6, [["a", 0, 0, 0]])])), "the loops mean 9,000,000,000,000 ops; allowed:"),
        (top(mesh=[["node", 10**18]]), "mesh: "),
    ],
)
def test_faults_of_a_stored_schedule(edit: Edit, words: str) -> None:
    form = json.loads(to_json(schedule_of(options_of("zeropp"), mesh_of(2, 2, 2), grad_accum=2)))
    edit(form)
    with pytest.raises(InputError) as caught:
        from_json(json.dumps(form), "s.json")
    assert str(caught.value).startswith("s.json: ") and words in str(caught.value) and "\n" not in str(caught.value)


def at(role: int, place: Any) -> Edit:
    return lambda form: form["roles"][role].update(at=place)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (in_op("exchange", ends=[1, 1]), ": both ends are stage 1; they differ"),
        (in_op("exchange", axis="stag"), ": unknown axis 'stag'; did you mean \"stage\"?"),
        (in_op("exchange", ends=[0, 2]), "exchange forward: it is between stage 0 and 2; role stage1 is at stage 1"),
        (at(1, ["stage", 0]), "roles[1].at: stage 0 is the place of role stage0 already"),
        (lambda form: form["roles"].pop(), "roles[1].at: no role at stage 2; roles stand at all of its 3"),
        (lambda form: form["roles"][1].pop("at"), "roles[1]: role stage1 is at no place; each of 3 roles needs one"),
    ],
)
def test_faults_of_a_stored_pipeline(edit: Edit, words: str) -> None:
    form = json.loads(to_json(PIPELINE))
    edit(form)
    with pytest.raises(InputError) as caught:
        from_json(json.dumps(form), "s.json")
    assert str(caught.value).startswith("s.json: ") and words in str(caught.value)


def test_files_that_are_no_schedule(tmp_path: Path) -> None:
    text = to_json(PIPELINE)
    for content, words in ((text[:100], "not JSON"), ("[]", "got [], allowed: a table"), ("\xff", "not UTF-8 text")):
        (tmp_path / "s.json").write_text(content, encoding="latin-1")
        with pytest.raises(InputError) as caught:
            load(tmp_path / "s.json")
        assert words in str(caught.value)
    with pytest.raises(InputError, match="No such file or directory"):
        load(tmp_path / "none.json")


def test_more_calls_are_read_where_that_is_asked_for() -> None:
    form = json.loads(to_json(schedule_of(options_of("ddp"), mesh_of(1, 2, 2))))
    form["blocks"][0] = form["blocks"][0][:1]
    in_calls(loop(MOST_OPS + 1, [["x", 0, 0, 0]]))(form)
    with pytest.raises(InputError, match="take more with --yes-large"):
        from_json(json.dumps(form), "s.json")
    assert len(from_json(json.dumps(form), "s.json", large=True).roles[0].calls) == MOST_OPS + 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("zpf:8", 'did you mean "zfp"?'),
        ("zfp:2", "write zfp:RATE with 2.25 to 32 bits per value, e.g. zfp:16"),
        ("int8", "write int8:BLOCK with BLOCK elements per scale, e.g. int8:6144"),
        ("mpc:fp16:0.1", "mpc"),
    ],
)
def test_texts_that_are_no_codec(text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_codec(text)
    assert str(caught.value).startswith(f"codec '{text}'") and words in str(caught.value)


def test_codecs_of_other_numbers() -> None:
    with pytest.raises(InputError, match="fp64"):
        parse_codec("zfp:8").on("fp64")
