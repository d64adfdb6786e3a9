"""An independent reader, written from docs/schedule.md, finds the numbers that simfrontier finds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simfrontier.core.collectives import messages_of
from simfrontier.core.collectives.volume import exchanged_bytes
from simfrontier.core.program import digest, load
from simfrontier.core.program.expansion import expand
from simfrontier.core.program.ir import Collective, Compute, Exchange
from simfrontier.core.trace import read_perfetto
from tests.core.program.independent import File, Routes, link_bytes, name_of
from tests.invoke import ROOT, TOY, invoke
from tests.some import some

TOYS = ("zeropp", "zero-topo")
GRIDS = ("megatron", "axonn")
CODED = ("naive-zfp", "MZHybrid")
# Sizes that nothing divides, operands as runs over layers, a pool that fills, a host that waits, and codecs per hop.
OF_TOYS = ["engine.blocking=host", "engine.live_elements=30000", "model.num_layers=20", "model.hidden=36"]
OF_GRIDS = [
    *(
        "plans.megatron.tensor=2",
        "plans.megatron.pipeline=4",
        "plans.megatron.chunks=2",
        "plans.megatron.order=interleaved",
    ),
    *("plans.megatron.sequence_parallel=true", "plans.megatron.product_pieces=4", "plans.axonn.x=2", "plans.axonn.y=2"),
    *("model.num_layers=8", "training.grad_accum=4"),
]
OF_CODED = [
    *("model.hidden=36", "model.sequence=15", "model.vocabulary=66", "training.micro_batch=3"),
    *("plans.naive-zfp.compress_per_hop=true", "plans.MZHybrid.compress_from=64"),
]
COMPRESSED = ROOT / "scenarios" / "compressed-3d.toml"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of all plans side by side."""
    out = tmp_path_factory.mktemp("schedules")
    for scenario, plans, settings in ((TOY, TOYS, OF_TOYS), (TOY, GRIDS, OF_GRIDS), (COMPRESSED, CODED, OF_CODED)):
        more = [word for setting in settings for word in ("--set", setting)]
        part = out / plans[0]
        ran = invoke("export", scenario, "--plans", ",".join(plans), "--devices", "8", *more, "--out", part)
        assert ran.code == 0, ran.err
        for path in part.iterdir():
            path.rename(out / path.name)
    return out


@pytest.mark.parametrize("plan", [*TOYS, *GRIDS, *CODED])
def test_a_second_reader_finds_the_same(exported: Path, plan: str) -> None:
    path = exported / f"schedule-{plan}.json"
    mine, theirs = File(path), load(path)
    trace = read_perfetto(exported / f"trace-{plan}.json")
    assert mine.is_canonical and mine.digest == digest(theirs) == trace.digest
    mesh = theirs.mesh
    for name, tensor in theirs.tensors.items():
        local = tensor.local_elements(mesh), tensor.local_bytes(mesh)
        assert (mine.local_elements(name), mine.local_bytes(name)) == local, name
    ended = mine.run()
    for program, role, done in zip(mine.programs, theirs.roles, ended, strict=True):
        expanded = expand(theirs, role)
        assert len(program.ops) == expanded.num_ops == done
        assert tuple(program.lanes) == expanded.lanes
        assert program.items() == [list(waits) for waits in expanded.waits]
        for op, known in zip(program.ops, expanded.ops, strict=True):
            assert (op["kind"], name_of(op)) == (known.kind, known.name)
            if isinstance(known, Collective):
                sizes = [message.num_bytes for message in messages_of(known, theirs.tensors, mesh)]
                assert [size for size in mine.message_bytes(op) if size] == [size for size in sizes if size]
            elif isinstance(known, Exchange):
                assert mine.message_bytes(op) == exchanged_bytes(known, theirs.tensors, mesh)
            else:
                assert isinstance(known, Compute)


@pytest.mark.parametrize("plan", ["zeropp", "axonn"])
def test_the_trace_has_the_bytes_that_a_second_reader_counts(exported: Path, plan: str) -> None:
    mine = File(exported / f"schedule-{plan}.json")
    (program,) = mine.programs
    for spans in some(read_perfetto(exported / f"trace-{plan}.json").spans):
        assert [span.op for span in sorted(spans, key=lambda span: span.op)] == list(range(len(program.ops)))
        for span in some(spans):
            if span.axes:
                assert span.message_bytes == sum(mine.message_bytes(program.ops[span.op])), span


@pytest.mark.parametrize("plan", ["zero-topo"])
def test_every_link_carries_what_a_second_reader_counts_by_its_routes(tmp_path: Path, plan: str) -> None:
    """Rings and direct messages over 8 nodes in two groups, with nothing of simfrontier but its files."""
    where = ("--set", "model.num_layers=2", "--devices", "32")
    ran = invoke("export", TOY, *where, "--plans", plan, "--fidelity", "chunk", "--out", tmp_path)
    assert ran.code == 0, ran.err
    assert invoke("show", TOY, "--routes", *where, "--save", tmp_path / "routes.json").code == 0
    mine, lowered, links = (
        File(tmp_path / f"schedule-{plan}.json"),
        *(json.loads((tmp_path / f"{what}-{plan}.json").read_text(encoding="ascii")) for what in ("lowered", "links")),
    )
    counted = link_bytes(mine, lowered, Routes(tmp_path / "routes.json"))
    carried = {link["name"]: link["num_bytes"] for link in links["links"]}
    assert carried.keys() >= counted.keys() and any(name.startswith("global") for name in counted)
    by_trees = 2 * 4 * 4  # two sums of one number of 4 bytes, each over a link four times at most: left out
    for name, num_bytes in carried.items():
        assert 0 <= num_bytes - counted.get(name, 0.0) <= by_trees, name


def test_every_rank_starts_ops_no_earlier_than_a_second_reader_allows(exported: Path) -> None:
    """Waits in the trace: what an op waits for has ended when it is ready (to the file's nanosecond)."""
    mine = File(exported / "schedule-zero-topo.json")
    (program,) = mine.programs
    for spans in some(read_perfetto(exported / "trace-zero-topo.json").spans):
        by_op = {span.op: span for span in spans}
        for index, need in enumerate(program.waits):
            for lane, count in need.items():
                assert by_op[program.queues[lane][count - 1]].end_s <= by_op[index].ready_s + 1.5e-9


def test_a_pipeline_that_leaves_out_an_exchange_does_not_end(exported: Path, tmp_path: Path) -> None:
    form = json.loads((exported / "schedule-megatron.json").read_text(encoding="ascii"))
    first = form["roles"][1]["calls"][0]
    while isinstance(first, dict):  # a loop, whose first call it is
        first = first["calls"][0]
    assert first[0] == "exchange"
    first[1] = len(form["blocks"])
    form["blocks"].append([])
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(form, sort_keys=True, separators=(",", ":")) + "\n", encoding="ascii")
    mine = File(path)
    assert mine.digest != digest(load(exported / "schedule-megatron.json"))
    assert any(done < len(program.ops) for done, program in zip(mine.run(), mine.programs, strict=True))
