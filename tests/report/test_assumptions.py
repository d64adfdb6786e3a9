"""What a prediction rests on: fitted numbers with the intervals that hold them, the least certain number first."""

from __future__ import annotations

from dataclasses import replace

from simfrontier.machine import HEALTHY, Provenance
from simfrontier.report.findings.assumptions import KINDS, assumptions_of, numbers_of
from simfrontier.report.render import environment
from simfrontier.report.troubles import troubles_in_short
from simfrontier.report.view import StudyView
from simfrontier.stack import load_stack
from tests.perturbed import perturbed
from tests.report.studies import study


def table(interval: tuple[float, float] | None, key: str, value: float, unit: str) -> str:
    """The table of numbers of a study whose library is one fitted number."""
    number = Provenance(key=key, value=value, unit=unit, kind="fitted", source="a fit", interval=interval)
    scenario = study().scenario
    scenario = replace(scenario, library=replace(scenario.library, sources=(number,)))
    made = (
        environment(None)
        .get_template("assumptions.html.j2")
        .module.numbers(numbers_of(scenario), scenario.machine, scenario.library)
    )
    return str(made).replace("\u00a0", " ")


def test_a_fitted_number_has_its_interval_below_it_in_its_own_unit() -> None:
    assert "<td>0.864<small>0.834 to 0.896</small></td>" in table((0.834, 0.896), "shares.nic", 0.864, "")
    hop = table((165.8e-6, 177.1e-6), "ring.hop_between_nodes_s", 171.4e-6, "s")
    assert "<td>171.4 µs<small>165.8 µs to 177.1 µs</small></td>" in hop


def test_a_fitted_number_without_an_interval_stands_alone() -> None:
    assert "<td>0.864</td>" in table(None, "shares.nic", 0.864, "")


def test_every_number_of_machine_and_library_is_there_the_least_certain_first() -> None:
    scenario = study().scenario
    found = numbers_of(scenario)
    assert len(found) == len(scenario.machine.provenance()) + len(scenario.library.provenance())
    kinds = [KINDS.index(number.kind) for _, number in found]
    assert kinds == sorted(kinds) and kinds[0] < kinds[-1]


def test_settings_hold_the_engine_and_what_plans_have_instead() -> None:
    found = assumptions_of(StudyView(study=study()))
    assert found.engine["persistence_elements"] == 128  # which the scenario says, so that no stack does
    own = {key: plans for key, plans in found.engine_of_plans.items() if plans}
    assert own == {"granularity": {"ddp": load_stack("fsdp1-flash2").engine["granularity"]}}
    assert found.options["zeropp"]["weight_codec"] == "int8:64"
    assert found.rank_classes == {o.plan: o.row["rank_classes"] for o in study().outcomes if o.devices == 8}


def test_whatever_is_slower_than_it_should_be_is_listed() -> None:
    wrong = perturbed({3: 0.5}, {(1, "nic0>net"): 0.25, (0, "hbm 1"): 0.75}, {(0, 1): 0.2})
    assert troubles_in_short(wrong, "GCD").split(", ") == [
        "GCD 3 at 50 %",
        "nic0>net of node 1 at 25 %",
        "hbm 1 of node 0 at 75 %",
        "global links 0>1 at 20 %",
    ]
    assert troubles_in_short(HEALTHY, "GCD") == ""
