"""The way in from Python: the same figures as the command line, loaded only when they are asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import simfrontier as sf
from simfrontier.errors import InputError

TOY = Path(__file__).resolve().parents[1] / "scenarios" / "toy.toml"


def loaded_by(code: str) -> set[str]:
    """The modules of simfrontier that a fresh process has after running the code, and all it has."""
    program = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_a_plan_is_simulated_as_the_study_does() -> None:
    scenario = sf.load(TOY, plans=("zero3", "zeropp"), devices=(8,))
    study = sf.compare(scenario)
    rows = {outcome.plan: outcome.row["step_time_s"] for outcome in study.outcomes}
    assert rows == {plan: sf.simulate(scenario, plan).step_s for plan in ("zero3", "zeropp")}
    assert sf.simulate(scenario).step_s == rows["zero3"]
    assert sf.simulate(scenario, fidelity="analytic").fidelity == "analytic"


def test_search_and_explanation_are_the_packages_own() -> None:
    from simfrontier.explanation import explain
    from simfrontier.tuning import tune

    assert (sf.explain, sf.tune) == (explain, tune)


def test_a_plan_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match="plan 'zero4': did you mean \"zero3\"") as caught:
        sf.simulate(sf.load(TOY), "zero4")
    assert "\n" not in str(caught.value)


def test_importing_simfrontier_loads_none_of_its_packages() -> None:
    own = {name for name in loaded_by("import simfrontier") if name.split(".")[0] == "simfrontier"}
    assert own == {"simfrontier"}


def test_reading_a_scenario_loads_no_simulator() -> None:
    loaded = loaded_by(f"import simfrontier as sf\nsf.load({str(TOY)!r})")
    assert "simfrontier.scenario" in loaded
    assert not {"simpy", "scipy", "pandas", "plotly", "torch"} & loaded
    assert not {name for name in loaded if name.startswith(("simfrontier.simulation", "simfrontier.report"))}
