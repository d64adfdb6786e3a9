"""Training with lowered collectives, in one process and on real ranks: equal to the unsharded model, as native is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from simfrontier.base.errors import InputError, SimfrontierError
from simfrontier.core.collectives import save_lowered
from simfrontier.core.program import Schedule, digest, load, save
from simfrontier.core.program.ir import CollectiveKind
from simfrontier_real.ranks.lowered import Route, described, lowered_path, read_lowered
from simfrontier_real.ranks.transfers import MemberPart
from simfrontier_real.ranks.transport import collectives_of
from simfrontier_real.train.train import train_in_one_process
from tests.real.lowerings import MIXED, RINGS, lowered_of
from tests.real.schedules import (
    ENGINES,
    EXACT,
    QUANTISED,
    Sizes,
    distance,
    loss_distance,
    schedule,
    training,
    unsharded,
)

EQUAL = 1e-10

ByKind = Mapping[CollectiveKind, str]


# ── in one process ──


@pytest.mark.parametrize(
    ("plan", "sizes", "by_kind"),
    [
        ("ddp", (2, 2, 2), RINGS),
        ("zero3", (2, 2, 2), MIXED),
        ("zeropp", (2, 1, 2), RINGS),
        ("zero-topo", (2, 2, 2), MIXED),
        ("odd order", (2, 2, 2), MIXED),
        ("three hops", (2, 2, 2), RINGS),
        ("reversed", (3, 1, 2), RINGS),
    ],
)
def test_lowered_training_equals_the_unsharded_model(plan: str, sizes: Sizes, by_kind: ByKind) -> None:
    made = schedule(EXACT[plan], sizes, grad_accum=2, engine=ENGINES["tight"])
    how = training(2)
    ours = train_in_one_process(made, how, lowered=lowered_of(made, by_kind))
    theirs = unsharded(made, how)
    assert distance(ours.weights, theirs.weights) <= EQUAL
    assert loss_distance(ours.losses, theirs.losses) <= EQUAL


def test_data_and_scales_travel_one_after_the_other() -> None:
    """Quantised gradients go by all-to-all, data then scales on one channel; what is summed afterwards is the same."""
    made = schedule(QUANTISED["qwz and qgz"], (2, 1, 2), precision="fp32")
    how = training(3)
    native = train_in_one_process(made, how)
    lowered = train_in_one_process(made, how, lowered=lowered_of(made, MIXED))
    assert distance(lowered.weights, native.weights) <= 1e-6  # sums over ranks are formed in another order
    moved = [op for op in collectives_of(made) if op.kind == "reduce_scatter" and op.codec.is_opaque]
    assert moved


def test_a_transfer_that_is_missing_on_one_rank_is_stuck_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    made = schedule(EXACT["zero3"], (2, 1, 2))
    kept = Route.part

    def lame(self: Route, elements: int) -> MemberPart:
        part = kept(self, elements)
        return without_last_send(part) if self.kind == "all_reduce" and self.member == 1 else part

    monkeypatch.setattr(Route, "part", lame)
    with pytest.raises(SimfrontierError, match=r"^stuck: rank \d, .*running op \d+, .*: all_reduce "):
        train_in_one_process(made, training(1), lowered=lowered_of(made))


def without_last_send(part: MemberPart) -> MemberPart:
    last = max(number for number, each in enumerate(part.rounds) if each.sends)
    rounds = list(part.rounds)
    rounds[last] = replace(rounds[last], sends=rounds[last].sends[:-1])
    return replace(part, rounds=tuple(rounds))


# ── the file ──


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two schedules of four ranks; one has its lowering beside it."""
    folder = tmp_path_factory.mktemp("schedules")
    save(schedule(EXACT["zero3"], (2, 1, 2), 2, engine=ENGINES["tight"]), folder / "schedule-zero3.json")
    save(schedule(EXACT["zero-topo"], (2, 1, 2), 2), folder / "schedule-topo.json")
    save_lowered(lowered_of(load(folder / "schedule-topo.json"), MIXED), folder / "lowered-topo.json")
    return folder


def test_a_lowering_is_found_beside_its_schedule(files: Path) -> None:
    path = files / "schedule-topo.json"
    assert lowered_path(path) == files / "lowered-topo.json"
    made = load(path)
    lowered = read_lowered(path, digest(made))
    assert lowered == lowered_of(made, MIXED)
    assert described(lowered).startswith("lowered, ") and "two_level" in described(lowered)


def refused(path: Path, made: Schedule) -> str:
    with pytest.raises(InputError) as caught:
        read_lowered(path, digest(made))
    message = str(caught.value)
    assert "\n" not in message and "allowed" in message
    return message


def test_lowerings_that_do_not_fit_are_refused_in_one_line(files: Path, tmp_path: Path) -> None:
    path = tmp_path / "schedule-a.json"
    made = load(files / "schedule-zero3.json")
    save(made, path)
    where = f"{tmp_path}/lowered-a.json: "
    assert refused(path, made).startswith(where + "is not there, and --collectives lowered needs it beside schedule-a")
    save_lowered(lowered_of(load(files / "schedule-topo.json")), tmp_path / "lowered-a.json")
    assert refused(path, made).startswith(where + "is of another schedule than schedule-a.json: ")
