"""Explanations: every answer is the step of a scenario with those settings, bit for bit; nothing that cannot be is
listed."""

from __future__ import annotations

from math import fsum
from typing import Any

import pytest

from simfrontier.errors import InputError
from simfrontier.explanation import DoesNotFitError, Explanation, TriedChange, explain
from simfrontier.explanation.options import option_changes
from simfrontier.scenario import load_scenario, parse_setting, scenario_of
from simfrontier.tuning import NothingFitsError, only
from simfrontier.workers import Local
from tests.explanation.toys import GRIDS, grids, of_grids, of_toy, ran, toy
from tests.invoke import TOY


def told(change: TriedChange) -> dict[str, Any]:
    return dict(map(parse_setting, change.settings))


def labels(explanation: Explanation, kind: str) -> list[str]:
    return [change.label for change in explanation.changes if change.kind == kind]


# ── every answer is a simulation ──


@pytest.mark.parametrize("plan", ["zero3", "zero-topo"])
def test_each_change_is_the_step_of_the_scenario_with_its_settings(plan: str) -> None:
    result = of_toy(plan)
    assert result.step_s == ran(toy(plan), plan, 8)[0]
    assert len(result.changes) > 8
    for change in result.changes[:: 1 if plan == "zero3" else 5]:  # each is a simulation: of some plans every fifth
        assert (change.step_s, change.peak_bytes) == ran(toy(plan, **told(change)), plan, 8), change
        assert change.saved_s == result.step_s - change.step_s
        assert change.share == change.saved_s / result.step_s
        assert change.fits


@pytest.mark.parametrize("plan", ["pipe", "grid", "searched"])
def test_changes_of_grids_too_with_what_a_search_has_found(plan: str) -> None:
    explanation = of_grids(plan)
    kept = dict(map(parse_setting, explanation.kept))
    assert bool(kept) == (plan == "searched")
    for change in explanation.changes[:: 1 if plan == "grid" else 4]:
        scenario = scenario_of(GRIDS, "grids.toml", {**kept, **told(change)}, (plan,))
        assert (change.step_s, change.peak_bytes) == ran(scenario, plan, 8), change


def test_the_links_that_messages_use_each_twice_as_fast() -> None:
    known = {change.label: change for change in of_toy("zero3").changes if change.kind == "link"}
    assert {*known} == {
        "xgmi links twice as fast",
        "pcie links twice as fast",
        "nic links twice as fast",
        "rings inside a node twice as fast",
    }
    nic = known["nic links twice as fast"]
    assert nic.settings == ("machine.overrides.link_classes.nic.bytes_per_s=2000000000.0",)
    assert nic.saved_s > 0.0 and nic.note == "2 GB/s instead of 1 GB/s"
    alone = explain(load_scenario(TOY), "zero3", devices=2)  # in one package: no NIC is used
    assert "nic links twice as fast" not in labels(alone, "link")


def test_machine_library_and_host() -> None:
    known = {change.label: change for change in of_toy("zero3").changes}
    assert told(known["matrix products twice as fast"]) == {
        "machine.overrides.device.peak_flops_per_s": 4e12,
        "machine.overrides.device.matmul_flops_per_s": 4e12,
    }
    assert told(known["device memory twice as fast"]) == {"machine.overrides.device.hbm_bytes_per_s": 200e9}
    assert told(known["no host time for hooks"]) == {"machine.overrides.host.hook_s": 0.0}
    start = told(known["start-up of collectives halved"])
    assert start["library.overrides.ring.base_s"] == 18e-6
    assert not any("tuning" in key for key in start)  # what a library believes is not what it takes
    assert "no host time for hooks" not in [change.label for change in of_grids("grid").changes]


def test_a_scenario_of_its_own_library_and_precision() -> None:
    document = {**GRIDS, "model": {"name": "tiny", "precision": "fp32"}, "library": {"name": "cray-mpich"}}
    result = explain(scenario_of(document, "grids.toml"), "grid")
    changes = {change.label: change for change in result.changes}
    assert "start-up of collectives halved" not in changes  # base_s is 0 there
    assert {*told(changes["latency of hops between nodes halved"])} == {
        f"library.overrides.{law}.hop_between_nodes_s" for law in ("ring", "ring_ll", "direct")
    }
    assert told(changes["matrix products twice as fast"]) == {
        "machine.overrides.device.fp32.peak_flops_per_s": 2e12,
        "machine.overrides.device.fp32.matmul_flops_per_s": 2e12,
    }


# ── overlaps and codecs ──


def test_overlaps_that_are_off_are_switched_on() -> None:
    assert labels(of_toy("zero-topo"), "overlap") == ["second hops have a lane of their own"]
    held = {plan: explain(toy(plan, **{"engine.blocking": "host"}), plan) for plan in ("zero-topo", "zero3")}
    assert labels(held["zero-topo"], "overlap") == [
        "second hops have a lane of their own",
        "blocking calls block their stream, not the host (engine)",
    ]
    assert labels(held["zero3"], "overlap") == []  # its calls do not block: that would change nothing
    assert "all-gathers overlap with computation (OAG)" in labels(of_grids("grid"), "overlap")
    reduced = "reductions of gradients overlap with the last backward"  # which the usual stack, megatron-core, does
    assert labels(of_grids("pipe"), "overlap") == ["exchanges of stages overlap with computation"]
    plain = explain(grids(stack="none"), "pipe")
    assert {*labels(plain, "overlap")} == {"exchanges of stages overlap with computation", reduced}
    off = explain(toy("zero3", **{"engine.overlap": False, "engine.step_reduction": "end"}), "zero3")
    changes = {change.label: change for change in off.changes if change.kind == "overlap"}
    overlap = changes["communication overlaps with computation (engine)"]
    assert overlap.settings == ("engine.overlap=true",)
    assert off.given == ("engine.overlap = False", "engine.step_reduction = end")
    assert overlap.step_s == ran(toy("zero3", **{"engine.step_reduction": "end"}), "zero3", 8)[0]


def test_all_reduced_gradients_are_coded_only_as_they_are_scattered() -> None:
    known = {change.label: change for change in of_toy("zero2").changes if change.kind == "codec"}
    coded = known["gradients reduced as int8:6144, reduce-scattered"]
    assert told(coded) == {"plans.zero2.gradient_codec": "int8:6144", "plans.zero2.reduction": "reduce_scatter"}


def test_codecs_both_ways() -> None:
    plain = {change.label: change for change in of_toy("zero3").changes if change.kind == "codec"}
    assert {*plain} == {
        "weights gathered as int8:6144",
        "gradients reduced as int8:6144",
        "gradients reduced as int4:6144",
    }
    assert all(change.note == "loses precision" for change in plain.values())
    switched = {change.label: change.settings for change in option_changes(toy("zeropp"), "zeropp")}
    assert switched["weights gathered plain (without qwZ)"] == {"plans.zeropp.qwz": False}
    assert switched["gradients reduced plain (without qgZ)"] == {"plans.zeropp.qgz": False}
    off = option_changes(toy("zeropp", **{"plans.zeropp.qwz": False}), "zeropp")
    assert ("weights gathered as int8:64 (qwZ)", "loses precision") in [(change.label, change.note) for change in off]
    topo = {change.label: told(change) for change in of_toy("zero-topo").changes if change.kind == "codec"}
    assert topo["weights gathered plain (instead of int8:64)"] == {"plans.zero-topo.weight_codec": "plain"}
    assert topo["new weights sent as int8:64"] == {"plans.zero-topo.publish_codec": "int8:64"}
    own = {change.label: change.settings for change in option_changes(toy("my-own"), "my-own")}
    assert own["gradients reduced for the step as int4:6144"] == {
        "plans.my-own.step_reduction": [
            {"axes": ["package"], "codec": "int4:6144"},
            {"axes": ["node"], "codec": "int4:6144"},
        ]
    }


def test_what_the_plan_cannot_do_is_not_listed() -> None:
    """DDP gathers no weights; what HSDP adds up between nodes has no digits over which coded sums are scattered."""
    assert sorted(labels(explain(toy("ddp"), "ddp"), "codec")) == [
        "gradients reduced as int4:6144",
        "gradients reduced as int8:6144",
    ]
    assert not [label for label in labels(explain(toy("hsdp"), "hsdp"), "codec") if "gradients" in label]


def test_a_change_that_does_not_fit_says_so() -> None:
    """With a capacity between what the plan needs and what some change of it needs."""
    result = of_toy("zero3")
    needs, base = max(change.peak_bytes for change in result.changes), ran(toy("zero3"), "zero3", 8)[1]
    assert needs > base
    between = float((needs + base) // 2)
    small = explain(toy("zero3", **{"machine.overrides.device.hbm_bytes": between}), "zero3")
    big = [change for change in small.changes if not change.fits]
    assert big and all("does not fit: " in change.note and change.peak_bytes > between for change in big)
    assert all(change.fits == (change.peak_bytes <= between) for change in small.changes)


# ── what is told ──


def test_what_saves_most_comes_first() -> None:
    saved = [change.saved_s for change in of_toy("zero-topo").changes]
    assert saved == sorted(saved, reverse=True)


def test_frames_are_for_notebooks() -> None:
    result = of_toy("zero3")
    parts = result.frame()
    assert parts["seconds"].sum() == pytest.approx(result.step_s, rel=1e-9)
    assert parts["share"].sum() == pytest.approx(1.0, rel=1e-9)
    assert list(parts.columns) == ["spent", "kind", "axes", "level", "seconds", "share", "calls", "words"]
    changes = result.changes_frame()
    assert len(changes) == len(result.changes)
    assert changes["settings"][0].startswith(("library.", "machine.", "plans.", "engine."))
    assert result.against is not None
    assert result.differences_frame()["seconds"].sum() == pytest.approx(result.step_s - result.against.step_s)
    without = explain(toy("zero3"), what_if=False)
    assert without.against is None
    assert (len(without.changes_frame()), len(without.differences_frame())) == (0, 0)


def test_against_another_plan_the_differences_sum_to_that_of_the_steps() -> None:
    result = of_toy("zero3")
    other = result.against
    assert other is not None and other.plan == "zero-topo"
    assert other.step_s == ran(toy("zero-topo"), "zero-topo", 8)[0]
    seconds = fsum(each.seconds for each in other.differences)
    assert seconds == pytest.approx(result.step_s - other.step_s, abs=1e-9 * result.step_s)
    assert " than zero-topo: " in other.sentence


def test_steps_of_different_batches_are_told_apart() -> None:
    plans = {
        "small": {"family": "megatron", "tensor": 2},
        "large": {"family": "megatron", "tensor": 2, "grad_accum": 2},
    }
    document = {**GRIDS, "training": {}, "plans": plans}
    result = explain(scenario_of(document, "grids.toml"), "small", against="large", what_if=False)
    assert result.against is not None
    assert result.against.sentence.endswith("(a step of large has 8 sequences, not 4)")


def test_by_default_the_fastest_plan_at_the_largest_size() -> None:
    scenario = load_scenario(TOY)
    result = explain(scenario, what_if=False)
    steps = {plan: ran(toy(plan, devices=16), plan, 16)[0] for plan in scenario.plans}
    order = sorted(steps, key=lambda plan: steps[plan])
    assert (result.plan, result.devices, result.fidelity, result.changes) == (order[0], 16, "flow", ())
    assert [(each.plan, each.time.step_s) for each in result.ranking] == [(plan, steps[plan]) for plan in order]
    assert [each.next.plan if each.next else None for each in result.ranking] == [*order[1:], None]
    assert result.against == result.ranking[0].next
    assert explain(toy("zero3"), fidelity="analytic", what_if=False).fidelity == "analytic"
    for named, other in ((order[0], order[1]), (order[1], order[0]), (order[-1], order[0])):
        one = explain(scenario, named, what_if=False)
        assert one.against is not None and (one.plan, one.against.plan, one.ranking) == (named, other, ())


def test_plans_of_different_batches_rank_by_sequences_per_second() -> None:
    """Twice the micro-batches take less than twice the time: the longer step is the better."""
    plans = {
        "small": {"family": "megatron", "tensor": 2},
        "large": {"family": "megatron", "tensor": 2, "grad_accum": 2},
    }
    result = explain(scenario_of({**GRIDS, "training": {}, "plans": plans}, "grids.toml"), what_if=False)
    assert [each.plan for each in result.ranking] == ["large", "small"]
    assert result.ranking[0].time.step_s > result.ranking[1].time.step_s


def test_plans_that_cannot_be_are_left_out_unless_they_are_named() -> None:
    plans = {**GRIDS["plans"], "uneven": {"family": "megatron", "tensor": 3}}
    scenario = scenario_of({**GRIDS, "plans": plans}, "grids.toml", laid_out=False)
    result = explain(scenario, what_if=False)
    assert {each.plan for each in result.ranking} == {"pipe", "grid", "searched"}
    assert [plan for plan, _ in result.left_out] == ["uneven"]
    for named in ({"plan": "uneven"}, {"plan": "grid", "against": "uneven"}):
        with pytest.raises(InputError, match="uneven"):
            explain(scenario, what_if=False, **named)


def test_a_family_that_the_scenario_does_not_name_takes_its_defaults() -> None:
    assert explain(grids(), "zero3", against="zero2", what_if=False).against is not None


def test_tables_of_single_sizes_hold() -> None:
    document = {**GRIDS, "at": {"8": {"plans": {"grid": {"oag": True}}, "training": {"batch": 32}}}}
    scenario = scenario_of(document, "grids.toml", None, ("grid", "pipe"))
    result = explain(scenario, "grid", against="pipe", what_if=False)
    assert result.samples == 32
    assert result.step_s == ran(scenario, "grid", 8)[0]
    offered = [change.label for change in option_changes(only(scenario, ("grid",), 8).of("grid", 8), "grid")]
    assert offered and "all-gathers overlap with computation (OAG)" not in offered


def test_on_two_processes_the_same_is_found() -> None:
    assert explain(load_scenario(TOY), "zero3", devices=8, against="zero-topo", place=Local(jobs=2)) == of_toy("zero3")


def test_progress_is_told_of_every_simulation() -> None:
    results: list[tuple[str, int]] = []
    result = explain(
        toy("zero3", "ddp"), "zero3", against="ddp", progress=lambda what, total: results.append((what, total))
    )
    assert {total for _, total in results} == {len(results)}
    assert [what for what, _ in results[:2]] == ["zero3", "ddp"]
    assert {change.label for change in result.changes} <= {what for what, _ in results}


# ── what cannot be explained ──


def test_a_plan_that_does_not_fit_is_not_explained() -> None:
    small = toy("zero3", "ddp", **{"machine.overrides.device.hbm_bytes": 2e5})
    with pytest.raises(DoesNotFitError) as error:
        explain(small, "ddp")
    message = str(error.value)
    assert (
        message.startswith(f"{TOY}: plans.ddp: at 8 devices: does not fit into memory: needs ") and "\n" not in message
    )
    assert "200 kB" in message and error.value.exit_code == 1
    with pytest.raises(NothingFitsError):
        explain(grids(**{"machine.overrides.device.hbm_bytes": 1e4}), "searched")


def test_names_that_are_not_there() -> None:
    with pytest.raises(InputError, match=r'plans: got "zero4"; did you mean "zero'):
        explain(load_scenario(TOY), "zero4")
    with pytest.raises(InputError, match='plans: got "nothing"; '):
        explain(load_scenario(TOY), "zero3", against="nothing")
    with pytest.raises(InputError, match="against: got 'zero3', the plan that is explained"):
        explain(load_scenario(TOY), "zero3", against="zero3")
    with pytest.raises(InputError, match="run"):
        explain(load_scenario(TOY), "zero3", devices=7)
