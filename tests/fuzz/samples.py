"""Well-formed files of every kind that is read, made by simfrontier itself or written here in a few lines."""

from __future__ import annotations

import json
from pathlib import Path

from simfrontier.inputs.measured import CallRow, load_table
from tests.core.topology.samples import bare, dgx_a100, frontier, link, perlmutter
from tests.inputs.job_files import samples as jobs
from tests.inputs.measured import writers
from tests.inputs.measured.tables import nccl_log
from tests.inputs.profiler.traces import over_gloo
from tests.invoke import ROOT, TOY, invoke
from tests.scenario_files import SCENARIOS

TOPOLOGY = b"""# by hand
SwitchName=s0 Nodes=tux[00-05],tux9 LinkSpeed=900
SwitchName=s1 Nodes=tux[06-08,12]
SwitchName=t0 Switches=s[0-1]
SwitchName=top Switches=t0
"""
OSU = b"""# OSU MPI-ROCM Allgather Latency Test v7.5
# Datatype: MPI_CHAR.
# Size       Avg Latency(us)
1024                   12.10
65536                  40.55
1048576               117.20
"""
NCCL = nccl_log({1048576: 33.21, 4194304: 66.4}).encode()
STUDY = b"""name = "tried"
title = "Tried"
scenarios = ["toy.toml"]
filters = ["training.micro_batch * training.grad_accum <= 8 or not scenario in ['toy']"]
set = { "uncertainty.samples" = 0, "run.devices" = [8] }
[sampling]
method = "latin-hypercube"
count = 5
seed = 1
[[axes]]
key = "machine.overrides.host.hook_s"
between = [1e-6, 1e-4]
scale = "log"
[[axes]]
key = "library.overrides.shares.nic"
samples = { distribution = "triangular", low = 0.5, mode = 0.8, high = 1.0 }
[[axes]]
keys = ["training.micro_batch", "training.grad_accum"]
rows = [[1, 4], [2, 2]]
[[axes]]
key = "machine.overrides.link_classes.nic.bytes_per_s"
log_range = { from = 1e9, to = 1e11, count = 3 }
[[axes]]
key = "engine.overlap"
values = [true, false]
"""
CASES = (  # settings of the toy scenario whose schedules are taken
    ("zero3,zeropp,zero-topo,zero2", ()),
    ("megatron", ("plans.megatron.tensor=2", "plans.megatron.pipeline=2", "training.grad_accum=2")),
    ("axonn", ("plans.axonn.x=2", "plans.axonn.y=2", "plans.axonn.z=2")),
)


def made_in(folder: Path) -> dict[str, list[bytes]]:
    """Samples by kind; `folder` is written into while they are made."""
    out: dict[str, list[bytes]] = {}
    for number, (plans, settings) in enumerate(CASES):
        words = [word for setting in settings for word in ("--set", setting)]
        chunk = ("--fidelity", "chunk") if number == 0 else ()
        made = invoke("export", TOY, "--plans", plans, "--devices", "8", "--out", folder / str(number), *words, *chunk)
        assert made.code == 0, made
    for kind in ("schedule", "trace", "lowered"):
        out[kind] = [path.read_bytes() for path in sorted(folder.glob(f"*/{kind}-*.json"))]
        assert out[kind], kind
    out["schedule"].sort(key=len)
    out["kineto"] = _traces(folder / "kineto")
    core = ROOT / "simfrontier" / "core"
    out["scenario"] = [path.read_bytes() for path in SCENARIOS]
    out["study"] = [STUDY]
    out["stack"] = [path.read_bytes() for path in sorted((core / "machine" / "stack" / "catalog").glob("*.toml"))]
    runs = (
        (ROOT / "simfrontier" / "answers" / "accuracy" / "published_runs" / "end_to_end.csv")
        .read_bytes()
        .splitlines(keepends=True)
    )
    out["runs"] = [b"".join([runs[0], *(runs[1 + at] for at in chosen)]) for chosen in ((106,), (178, 186), (219,))]
    out["machine"] = [path.read_bytes() for path in sorted((core / "machine" / "catalog").glob("*.toml"))]
    out["library"] = [
        path.read_bytes()
        for path in sorted((core / "collectives" / "catalog").glob("*.toml"))
        if path.name != "transfers.toml"
    ]
    out["log"] = [OSU, NCCL]
    out |= _of_ranks_and_benchmarks(folder)
    tables = sorted((ROOT / "simfrontier" / "inputs" / "measured" / "tables").glob("*.csv"))
    out["table"] = [b"\n".join(path.read_bytes().split(b"\n")[:12]) for path in tables]
    (folder / "all_gather_perf.log").write_bytes(NCCL)
    (folder / "osu.txt").write_bytes(OSU)
    made = invoke("calibrate", folder / "all_gather_perf.log", "--tables", "--out", folder / "box.toml")
    assert made.code == 0, made
    out["calibration"] = [(folder / "box.toml").read_bytes()]
    out["topology"] = [TOPOLOGY]
    nodes = (frontier(), perlmutter(), dgx_a100(), bare([link(1, 4), link(0, 4)]))
    out["topology-xml"] = [text.encode() for text in nodes]
    out |= {
        "job-json": [json.dumps(each).encode() for each in (jobs.LLAMA_3_8B, jobs.DEEPSEEK_V3, jobs.ZERO_3)],
        "job-yaml": [jobs.NEOX.encode(), jobs.NEMO.encode()],
        "job-toml": [jobs.TITAN.encode()],
        "job-script": [jobs.MEGATRON.encode(), jobs.LOG.encode()],
    }
    out["setting"] = [
        b"training.micro_batch=2",
        b'nodes={placement="random",seed=3}',
        b"plans.*.softmax=two-pass",
        b'machine.overrides={"device.hbm_bytes"=1e9}',
    ]
    return out


def _of_ranks_and_benchmarks(folder: Path) -> dict[str, list[bytes]]:
    """Files of programs that time calls, made of the first rows of a shipped table."""
    rows = [row for row in load_table("nccl_perlmutter").rows if isinstance(row, CallRow) and row.devices == 8][:4]
    kinds: dict[str, tuple[writers.Write, ...]] = {
        "inspector": (writers.inspector,),
        "flight-recorder": (writers.flight_pickles, writers.flight_jsons),
        "deepspeed": (writers.deepspeed_lines, writers.deepspeed_table, writers.deepspeed_dict),
        "benchmark-file": (writers.nccl_json, writers.rccl_json, writers.rccl_csv),
    }
    out = {}
    for kind, several in kinds.items():
        out[kind] = []
        for write in several:
            into = folder / kind / write.__name__
            into.mkdir(parents=True)
            first = write(rows, 4, into)[0]
            out[kind].append((min(first.iterdir()) if first.is_dir() else first).read_bytes())
    return out


def _traces(folder: Path) -> list[bytes]:
    """Return traces of simulated ranks, as PyTorch writes them, and one over gloo."""
    made = invoke("export", TOY, "--format", "kineto", "--plans", "zero3,zeropp", "--devices", "2", "--out", folder)
    assert made.code == 0, made
    return [path.read_bytes() for path in (*sorted(folder.glob("z*.json")), over_gloo(folder / "gloo.json"))]
