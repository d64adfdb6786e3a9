"""The stored form: round trip, size, digest, and one line for every way in which a file can be wrong."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.errors import InputError
from simfrontier.schedule import Call, Ref, Role, Schedule, digest, from_json, load, save, to_json
from simfrontier.schedule.loops import Loop, expanded, folded, num_calls
from simfrontier.schedule.repeated_refs import refs_of_run, runs_of_refs
from simfrontier.workload import Checkpointing
from tests.schedule.builders import ENGINES, frontier_20b, mesh_of, options_of, schedule_of

FAMILIES = ("ddp", "zero1", "zero2", "zero3", "hsdp", "zeropp", "zero-topo")


def small() -> Schedule:
    return schedule_of(options_of("zeropp"), mesh_of(2, 2, 2), grad_accum=2)


def num_blocks(schedule: Schedule) -> int:
    return len({call.block for role in schedule.roles for call in role.calls})


@settings(max_examples=40, deadline=None)
@given(
    family=st.sampled_from(FAMILIES),
    sizes=st.tuples(st.sampled_from([1, 2, 3]), st.sampled_from([1, 4]), st.sampled_from([1, 2])),
    engine=st.sampled_from(sorted(ENGINES)),
    grad_accum=st.integers(1, 4),
    checkpointing=st.sampled_from(["full", "none"]),
    num_layers=st.integers(1, 6),
)
def test_what_is_read_back_is_equal_and_shares_its_blocks(
    family: str,
    sizes: tuple[int, int, int],
    engine: str,
    grad_accum: int,
    checkpointing: Checkpointing,
    num_layers: int,
) -> None:
    made = schedule_of(
        options_of(family), mesh_of(*sizes), ENGINES[engine], grad_accum, checkpointing, num_layers=num_layers
    )
    text = to_json(made)
    read = from_json(text, "s.json")
    assert read == made
    assert num_blocks(read) == num_blocks(made)
    assert to_json(read) == text


def loop(times: int, calls: list[Any], layers: int = 0) -> dict[str, Any]:
    return {"times": times, "layers": layers, "micros": 0, "calls": calls}


@pytest.mark.parametrize("family", FAMILIES)
def test_size_grows_neither_with_layers_nor_with_micro_batches(family: str) -> None:
    def size(num_layers: int, grad_accum: int) -> int:
        return len(to_json(frontier_20b(family, num_layers, grad_accum)))

    assert size(88, 1) == pytest.approx(size(44, 1), rel=0.02)
    assert size(10, 16) == pytest.approx(size(10, 2), rel=0.02)


def test_digest_depends_on_neither_construction_order_nor_sharing() -> None:
    schedule = small()
    (role,) = schedule.roles
    unshared = tuple(Call(c.label, c.layer, c.micro, tuple(replace(op) for op in c.ops)) for c in role.calls)
    other = replace(
        schedule,
        tensors=dict(sorted(schedule.tensors.items(), reverse=True)),
        meta=dict(sorted(schedule.meta.items(), reverse=True)),
        roles=(Role(role.name, unshared),),
    )
    assert other == schedule
    assert digest(other) == digest(schedule)


def test_digest_sees_every_change() -> None:
    schedule = small()
    longer = replace(schedule, roles=(Role("all", schedule.roles[0].calls[:-1]),))
    others = [replace(schedule, meta={**schedule.meta, "batch": 1}), longer, replace(schedule, pools={"live": 1})]
    assert len({digest(s) for s in [schedule, *others]}) == 4


def test_file_is_canonical_json_without_floats(tmp_path: Path) -> None:
    schedule, path = small(), tmp_path / "s.json"
    save(schedule, path)
    text = path.read_text()
    assert text == to_json(schedule) + "\n"
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")) + "\n"
    assert load(path) == schedule
    assert [p.name for p in tmp_path.iterdir()] == ["s.json"]


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "s.json").mkdir()
    with pytest.raises(InputError, match=r"s\.json: cannot be written: Is a directory"):
        save(small(), tmp_path / "s.json")
    assert [p.name for p in tmp_path.iterdir()] == ["s.json"]
    with pytest.raises(InputError, match=r"s\.json: cannot be written: No such file or directory"):
        save(small(), tmp_path / "nowhere" / "s.json")


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.json"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(InputError, match="No space left on device"):
        save(small(), path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["s.json"]


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no\.json: cannot read this schedule: No such file"):
        load(tmp_path / "no.json")
    path = tmp_path / "s.json"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"s\.json: not a schedule: byte 0 is not UTF-8 text"):
        load(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "s.json: line 1 column 1: not JSON: Expecting value"),
        ("{", "s.json: line 1 column 2: not JSON: Expecting property name enclosed in double quotes"),
        ("[1.5]", "s.json: not a schedule: got 1.5, allowed: whole numbers alone (a trace has others)"),
        ("[NaN]", "s.json: not a schedule: NaN is not a number"),
        ("[]", "s.json: not a schedule: got [], allowed: a table"),
        ("[" * 100_000, "s.json: not a schedule: nested too deeply"),
        (
            '{"format":"simfrontier.schedule","version":7}',
            "s.json: version: got 7, allowed: 2, which this simfrontier reads",
        ),
        (
            '{"format":"simfrontier.schedule","version":1}',
            "s.json: version: got 1, allowed: 2, which this simfrontier reads",
        ),
        ('{"format":"simfrontier.schedule","version":2}', "s.json: blocks: missing"),
    ],
)
def test_texts_that_are_no_schedule(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        from_json(text, "s.json")
    assert str(caught.value) == message


@pytest.mark.parametrize("cut", [10, 500, 5000, 30_000])
def test_truncated_files_are_told_in_one_line(cut: int) -> None:
    with pytest.raises(InputError, match=r"^s\.json: line 1 column \d+: not JSON: [^\n]*$"):
        from_json(to_json(small())[:cut], "s.json")


def first_op(form: Any, kind: str) -> int:
    return next(i for i, op in enumerate(form["ops"]) if op["kind"] == kind)


def change(*path: object) -> Callable[[Any], str]:
    """A change of one place; the last of `path` is the new value; a kind among the keys means the first op of it."""
    *keys, value = path

    def apply(form: Any) -> str:
        steps = [first_op(form, str(k)) if i == 1 and keys[0] == "ops" else k for i, k in enumerate(keys)]
        inside = form
        for key in steps[:-1]:
            inside = inside[key]
        inside[steps[-1]] = value
        return str(steps[1]) if len(steps) > 1 else ""

    return apply


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (change("pears", 1), "pears: unknown key; allowed: blocks"),
        (change("mesh", "wide"), 'mesh: got "wide", allowed: a list'),
        (change("mesh", 0, 1, 0), "mesh[0][1]: got 0, allowed: 1 or more"),
        (change("mesh", 1, 0, "node"), "mesh: mesh: axis named twice in node, node, gcd"),
        (change("meta", "batch", None), "meta.batch: got null, allowed: a whole number"),
        (change("pools", "live", -1), "pools.live: got -1, allowed: 0 or more"),
        (change("tensors", "x", "shape", 0, -16), "tensors.x.shape[0]: got -16, allowed: 1 or more"),
        (change("tensors", "x", "shape", 0, True), "tensors.x.shape[0]: got true, allowed: a whole number"),
        (change("tensors", "x", "dims", ["b"]), "tensors.x.dims: 1 labels; the shape has 3 dimensions"),
        (change("tensors", "x", "dtype", "fp17"), 'tensors.x.dtype: got "fp17"; did you mean "fp16"?'),
        (
            change("tensors", "x", "role", "activity"),
            'tensors.x.role: got "activity"; did you mean "activation"?',
        ),
        (
            change("tensors", "x", "placement", "node:flat gcd:slab"),
            "tensors.x.placement: placement 'node:flat gcd:slab'",
        ),
        (change("tensors", "x", "placement", "node:flat node:flat node:shard(0)"), "tensors.x.placement: placement"),
        (change("tensors", "x", "codec", "int3:8"), "tensors.x.codec: codec 'int3:8'"),
        (change("tensors", "x", "pool", "dead"), 'tensors.x.pool: got "dead"; allowed: live'),
        (change("tensors", "x", "weight", "qkv.wait"), 'tensors.x.weight: got "qkv.wait"; did you mean "qkv.weight"?'),
        (
            change("tensors", "x", "stage", "sideways"),
            'tensors.x.stage: got "sideways"; allowed: backward, forward, recompute',
        ),
        (change("ops", "matmul", "part", "dgrid"), 'ops[{}].part: got "dgrid"; did you mean "dgrad"?'),
        (change("ops", "matmul", "name", "qkv"), "ops[{}].name: unknown key"),
        (change("tensors", "x", "persistent", 1), "tensors.x.persistent: got 1, allowed: true or false"),
        (change("tensors", "x", "colour", "red"), "tensors.x.colour: unknown key"),
        (change("ops", "all_gather", "codec", "int8:0"), "ops[{}].codec: codec 'int8:0'"),
        (
            change("ops", "all_gather", "kind", "all_gatter"),
            'ops[{}].kind: got "all_gatter"; did you mean "all_gather"?',
        ),
        (change("ops", "all_gather", "src", []), "ops[{}]: 0 src, but 1 dst; they pair up"),
        (change("ops", "all_gather", "via", "pigeon"), 'ops[{}].via: got "pigeon"; allowed: direct'),
        (change("ops", "all_gather", "axes", [1]), "ops[{}].axes[0]: got 1, allowed: a text"),
        (change("ops", "matmul", "flops", -1), "ops[{}].flops: got -1, allowed: 0 or more"),
        (change("ops", "matmul", "matmul", [[]]), "ops[{}].matmul: got 1 entries, allowed: 4"),
        (change("ops", "matmul", "reads", 0, ["x", 1]), "ops[{}].reads[0]: got 2 entries, allowed: 3"),
        (change("ops", "matmul", "reads", [[10**9, ["x"], 1]]), "ops[{}].reads[0][0]: got 1000000000, allowed: "),
        (change("ops", "matmul", "lane", ""), 'ops[{}].lane: got "", allowed: a text of at least one character'),
        (change("blocks", 0, 0, 10_000), "blocks[0][0]: got 10000, allowed: 0 or more, up to"),
        (change("blocks", 0, 0, "a"), 'blocks[0][0]: got "a", allowed: a whole number'),
        (change("roles", 0, "calls", 0, ["a", 0, -1, 0]), "roles[0].calls[0][2]: got -1, allowed: 0 or more"),
        (
            change("roles", 0, "calls", [loop(3, [["a", 0, 1, 0]], layers=-1)]),
            "roles[0].calls: the loops lead to layer or micro-batch -1; allowed: 0 or more",
        ),
        (change("roles", 0, "calls", [loop(2, [])]), "roles[0].calls[0].calls: a loop of no calls; allowed: one call"),
        (
            change("roles", 0, "calls", [loop(0, [["a", 0, 1, 0]])]),
            "roles[0].calls[0].times: got 0, allowed: 1",
        ),
        (change("roles", 0, "calls", [{"calls": [["a", 0, 1, 0]]}]), "roles[0].calls[0].layers: missing"),
        (change("roles", 0, "calls", 0, ["a", 999, 0, 0]), "roles[0].calls[0][1]: got 999, allowed: "),
        (
            change("roles", 0, "calls", [loop(10**6, [loop(10**6, [["a", 0, 0, 0]])])]),
            "roles[0].calls: the loops mean 1,000,000,000,000 calls; allowed: up to 400,000",
        ),
        (change("roles", 0, "name", None), "roles[0].name: got null, allowed: a text"),
    ],
)
def test_faults_are_told_with_their_place(edit: Callable[[Any], str], text: str) -> None:
    form = json.loads(to_json(small()))
    number = edit(form)
    with pytest.raises(InputError) as caught:
        from_json(json.dumps(form), "s.json")
    message = str(caught.value)
    assert message.startswith("s.json: " + text.format(number))
    assert "\n" not in message


@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 1)), max_size=40))
def test_loops_mean_the_same_calls(calls: list[tuple[str, int, int]]) -> None:
    made = [Call(label, layer, layer % 2, (), block) for label, block, layer in calls]
    items = folded(made, range(3))
    assert list(expanded(items)) == made and [call.block for call in expanded(items)] == [call.block for call in made]
    assert num_calls(items) == len(made) and len(items) <= len(made)


def test_a_pass_over_layers_and_one_over_micro_batches_are_loops() -> None:
    """Forwards up the layers, backwards down, and that for each micro-batch; the second backward is another block."""
    made = []
    for micro in range(4):
        made += [Call("forward", layer, micro, (), 0) for layer in range(6)]
        made += [Call("backward", layer, micro, (), 1 if layer else 2) for layer in reversed(range(6))]
    up, down = Loop(6, (made[0],), 1, 0), Loop(5, (made[6],), -1, 0)
    assert folded(made, range(3)) == (Loop(4, (up, down, made[11]), 0, 1),)
    assert folded(made, (0, 1, 1)) == (Loop(4, (up, Loop(6, (made[6],), -1, 0)), 0, 1),)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), min_size=14, max_size=60))
def test_runs_mean_the_same_operands(refs: list[tuple[str, int]]) -> None:
    made = tuple(Ref(name, layer) for name, layer in refs)
    again = [ref for part in runs_of_refs(made) for ref in ([part] if isinstance(part, Ref) else refs_of_run(part))]
    assert tuple(again) == made
