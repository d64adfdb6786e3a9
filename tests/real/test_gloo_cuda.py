"""gloo with buffers on a device: a stream per lane, messages through the host's memory; all of it that needs no GPU."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
import torch

from simfrontier.core.collectives import save_lowered
from simfrontier.core.program import load, save
from simfrontier.core.trace import read_perfetto
from simfrontier_real.ranks.device import device_kind
from simfrontier_real.ranks.processes import TorchPending, TorchWire, copied
from simfrontier_real.ranks.transport import WireMessage
from tests.real.grids import axonn, megatron
from tests.real.lowerings import lowered_of
from tests.real.ranks import Ended, run_ranks
from tests.real.schedules import ENGINES, EXACT, QUANTISED, schedule

HAS_GPU = torch.cuda.is_available()
LIMIT_S = 200.0  # of a whole launch, on a box that is busy with other tests
ON_STANDIN = "tests.real.standin_cuda"
ON_CUDA = ["--backend", "gloo", "--device", "cuda"]
SCHEDULES = {
    "zero3": lambda: schedule(EXACT["zero3"], (2, 1, 2), 2, engine=ENGINES["tight"]),
    "topo": lambda: schedule(EXACT["zero-topo"], (2, 1, 2), 2),
    "quantised": lambda: schedule(QUANTISED["qwz and qgz"], (2, 1, 2), precision="fp32"),
    "tensor": lambda: axonn(2, 2, 1).schedule,
    "stages": lambda: megatron(2, 2, sequence_parallel=True, overlap_exchange=True).schedule,
}
LOWERED = ("zero3", "topo")  # of one role


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Schedules of four ranks, with lowerings of some."""
    folder = tmp_path_factory.mktemp("schedules")
    for name, make in SCHEDULES.items():
        save(make(), path(folder, name))
        if name in LOWERED:
            save_lowered(lowered_of(load(path(folder, name))), folder / f"lowered-{name}.json")
    return folder


def path(folder: Path, name: str) -> Path:
    return folder / f"schedule-{name}.json"


def run(arguments: Sequence[str], module: str) -> Ended:
    ended = run_ranks([arguments] * 4, LIMIT_S, module)
    assert ended.orphans == () and set(ended.codes) == {0}, ended.err
    return ended


# ── with streams that are stood in for, or on a GPU where there is one ──


@pytest.mark.parametrize(("names", "collectives"), [(tuple(SCHEDULES), "native"), (LOWERED, "lowered")])
def test_four_ranks_train_like_the_unsharded_model(
    files: Path, tmp_path: Path, names: tuple[str, ...], collectives: str
) -> None:
    report = tmp_path / "trained.json"
    given = ["train", *(str(path(files, name)) for name in names), "--steps", "2", "--json", str(report)]
    given += [*ON_CUDA, "--collectives", collectives, "--out", str(tmp_path / "traces")]
    run(given, "simfrontier_real" if HAS_GPU else ON_STANDIN)
    for name, result in zip(names, json.loads(report.read_text(encoding="utf-8")), strict=True):
        assert result["is_good"] and result["message_bytes"] == result["scheduled_bytes"] > 0, result
        if name != "quantised":
            assert result["must_agree"] and result["weights_error"] <= 1e-10 and result["loss_error"] <= 1e-10
        trace = read_perfetto(tmp_path / "traces" / f"trace-{name}.json")
        assert trace.notes["buffers"] == "on cuda:0, messages copied through the host's memory"
        for spans in trace.spans:
            assert all(span.ready_s <= span.start_s <= span.end_s for span in spans)


def test_measuring_says_what_was_measured(tmp_path: Path) -> None:
    given = ["measure", "--out", str(tmp_path / "box.toml"), *ON_CUDA, "--sizes", "4KiB,64KiB", "--iterations", "3"]
    run(given, "simfrontier_real" if HAS_GPU else ON_STANDIN)
    text = (tmp_path / "box.toml").read_text(encoding="utf-8")
    assert 'title = "gloo on 4 ranks, buffers on cuda:0, messages copied through the host\'s memory"' in text


@pytest.mark.skipif(not HAS_GPU, reason="this machine has no GPU")
def test_what_tensors_are_on() -> None:
    assert device_kind("gloo", None) == device_kind("gloo", "cpu") == "cpu"
    assert device_kind("gloo", "cuda") == device_kind("nccl", None) == device_kind("nccl", "cuda") == "cuda"


def test_gloo_gets_copies_in_the_hosts_memory_and_results_go_to_the_device() -> None:
    """torch's device `meta` holds no values: it stands for the one that results belong on."""
    wire = TorchWire(group=None, members=(0, 1), staged=True, in_batches=False)
    message, on_device = torch.arange(6.0), torch.empty(6, device="meta")
    sent, _ = wire._side(WireMessage(1, True, message))
    assert torch.equal(sent, message) and sent.data_ptr() != message.data_ptr()
    room, deliver = wire._side(WireMessage(1, False, on_device))
    assert room.device.type == "cpu" and room.shape == on_device.shape
    arrived = torch.zeros(6)
    room, deliver = wire._side(WireMessage(1, False, arrived))
    room[...] = message
    deliver(None)
    assert torch.equal(arrived, message)
    result = TorchPending([], message, partial(copied, device="meta")).wait()
    assert result.device.type == "meta" and result.shape == message.shape
