"""Estimates of the live page, against what is simulated afterwards."""

from __future__ import annotations

import time

import pytest

from simfrontier.live.controls import HOP, SHARE
from simfrontier.live.estimates import estimates_of, numbers_of, places_of, without_numbers
from simfrontier.live.state import LiveState
from simfrontier.live.worker import Worker
from simfrontier.scenario import load_scenario
from simfrontier.simulation import REPLAY_MEAN_ERROR
from simfrontier.workers import PerProcess
from tests.invoke import TOY
from tests.live.serving import served

OTHER = LiveState(places={"training.grad_accum": 1})


@pytest.fixture(scope="module")
def worker() -> PerProcess[Worker]:
    return PerProcess(Worker, load_scenario(TOY))


def test_estimates_are_close_to_what_is_simulated(worker: PerProcess[Worker]) -> None:
    """Wherever both numbers stand, with other controls moved as well."""
    controls = worker.here.controls
    share, hop = numbers_of(controls)
    found = estimates_of(worker, "zero3", OTHER)
    assert len(found.step_s) > 0.8 * len(share.values) * len(hop.values)
    for at_share, at_hop in ((2, 3), (5, 0), (9, 8)):
        state = OTHER.moved(share, at_share).moved(hop, at_hop)
        shown = found.shown(places_of(state, controls))
        row = worker.here.simulated("zero3", state).outcome.row
        assert shown is not None and shown["error"] == REPLAY_MEAN_ERROR
        assert shown["step_s"] == pytest.approx(row["step_time_nominal_s"], rel=0.02)
        assert shown["nominal"] == pytest.approx(float(row["tokens_per_s_nominal"]) / row["devices"], rel=0.02)


def test_states_that_differ_in_numbers_alone_share_estimates(worker: PerProcess[Worker]) -> None:
    share, hop = numbers_of(worker.here.controls)
    assert (share.key, hop.key) == (SHARE, HOP)
    state = OTHER.moved(share, 3)
    assert without_numbers(state, worker.here.controls) == OTHER
    assert places_of(state, worker.here.controls) == (3, hop.at)


def test_a_plan_that_what_ifs_do_not_know_is_not_estimated() -> None:
    """Where calls differ from each other, and in a grid that is searched for anew in every state."""
    spread = {"perturbation.spread": [{"name": "rccl-calls-lumi"}]}
    searched = {"plans.axonn.search": {"values": {"x": [2, 4], "z": [1, 2]}}}
    for plan, changed in (("zero3", spread), ("axonn", searched)):
        worker = PerProcess(Worker, load_scenario(TOY, changed))
        assert estimates_of(worker, plan, LiveState(places={})).step_s == {}


def test_what_is_estimated_comes_while_nobody_asks() -> None:
    with served(TOY, "--devices", "16", "--plans", "zero3,ddp") as started:
        started.answer()
        link = {SHARE: "0.3"}
        deadline = time.monotonic() + 120
        while len(started.estimate(link)["plans"]) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        estimated = started.estimate(link)["plans"]
        for each in started.answer(link)["plans"]:
            assert estimated[each["plan"]]["nominal"] == pytest.approx(each["nominal"], rel=0.02)
        assert started.estimate({**link, "training.grad_accum": "4"}) == {"plans": {}}
        assert started.refusal("estimate", {"engine.overlep": "false"})[0] == 422
