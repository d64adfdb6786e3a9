"""The way in from Python: the same figures as the command line, loaded only when they are asked for."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import simfrontier as sf
from simfrontier.errors import InputError
from simfrontier.report.phrases import number
from tests.invoke import invoke

TOY = Path(__file__).resolve().parents[1] / "scenarios" / "toy.toml"


def loaded_by(code: str) -> set[str]:
    """The modules of simfrontier that a fresh process has after running the code, and all it has."""
    program = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_a_plan_is_simulated_as_the_study_does() -> None:
    scenario = sf.load(TOY, plans=("zero3", "zeropp"), devices=(8,))
    study = sf.compare(scenario)
    rows = {outcome.plan: outcome.row["step_time_nominal_s"] for outcome in study.outcomes}
    assert rows == {plan: sf.simulate(scenario, plan).step_s for plan in ("zero3", "zeropp")}
    assert sf.simulate(scenario).step_s == rows["zero3"]
    assert sf.simulate(scenario, fidelity="analytic").fidelity == "analytic"


def test_a_comparison_of_a_machine_and_a_model_equals_that_of_a_file_that_says_the_same(tmp_path: Path) -> None:
    file = tmp_path / "same.toml"
    file.write_text(
        'name = "same"\ntitle = "same"\n[machine]\nname = "toy-cluster"\n[model]\nname = "tiny"\n'
        '[run]\ndevices = [2, 8]\n[training]\ngrad_accum = 2\n[plans.zero3]\n[plans.mine]\nfamily = "lattice"\n'
        'weight = ["gcd"]\naccumulator = ["gcd"]\noptimizer = ["node", "package", "gcd"]\n'
        'nesting = ["gcd", "package", "node"]\ngather_codec = "int8:64"\n'
    )
    mine = {
        "weight": ("gcd",),
        "accumulator": ["gcd"],
        "optimizer": ["node", "package", "gcd"],
        "nesting": ["gcd", "package", "node"],
        "gather_codec": "int8:64",
    }
    asked: dict[str, Any] = {"devices": [2, 8], "settings": {"training.grad_accum": 2}}
    told = sf.compare(file).frame().drop(columns="scenario")
    options = sf.load(file).plans["mine"]
    for plan in (mine, {**mine, "family": "lattice"}, options):
        found = sf.compare("toy-cluster", "tiny", {"zero3": {}, "mine": plan}, **asked)
        assert found.frame().drop(columns="scenario").equals(told)
    assert sf.compare(str(file), devices=8, plans="zero3").frame().shape[0] == 1


def test_plans_by_name_are_families_with_their_defaults() -> None:
    scenario = sf.new_scenario("toy-cluster", "tiny", {"fast": "hsdp"}, devices=8)
    assert (scenario.plans["fast"].family, scenario.file.run.devices) == ("hsdp", [8])
    named = sf.new_scenario(
        "toy-cluster", {"num_layers": 1, "hidden": 8, "heads": 2, "vocabulary": 9, "sequence": 4}, "ddp", devices=2
    )
    assert list(named.plans) == ["ddp"] and named.shape.num_layers == 1


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"plans": ["zero4"]}, 'scenario: plans: got "zero4"; did you mean "zero3"?'),
        ({"plans": {"a": 3}}, "scenario: plans.a: got 3, allowed: a family's name, a dict of its keys, or options"),
        ({"plans": {"a": {"wieght": ["gcd"]}}}, 'scenario: plans.a.wieght: unknown key; did you mean "weight"?'),
        ({"devices": []}, "devices: got none; allowed: sizes, e.g. devices=[8, 64, 384]"),
        ({"machine": "fronteer"}, 'did you mean "frontier"?'),
        ({"model": "gpt-13"}, 'did you mean "gpt-13b"?'),
    ],
)
def test_what_cannot_be_is_one_line_with_what_is_allowed(asked: dict[str, Any], message: str) -> None:
    given = {"machine": "toy-cluster", "model": "tiny", "plans": ["zero3"], "devices": [8], **asked}
    with pytest.raises(InputError) as caught:
        sf.compare(given["machine"], given["model"], given["plans"], devices=given["devices"])
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_comparison_shows_itself_in_few_lines_and_little_html() -> None:
    plans = {f"plan-{number}": "zero3" for number in range(30)}
    found = sf.compare("toy-cluster", "tiny", plans, devices=[2, 8])
    shown, html = repr(found), found._repr_html_()
    assert len(shown.splitlines()) <= 20 and "15 more" in shown
    rate = found.findings["rows"]["plan-0"][1]["tokens_per_s_per_device"]
    assert rate is not None and number(rate) in shown and number(rate) in html and "<svg" in html
    assert len(html) < 60_000 and "<script" not in html
    assert found.verdict in html and found.verdict.replace("\u00a0", " ") in shown


@pytest.mark.parametrize("kind", ["rate", "step_time", "efficiency", "breakdown", "traffic", "memory", "timeline"])
def test_every_kind_of_figure_is_drawn(kind: Any) -> None:
    figure = toy().figure(kind)
    assert len(figure.data) > 0 and figure.layout.xaxis.title.text


def test_figures_of_a_plan_are_of_that_plan() -> None:
    outcome = next(o for o in toy().view.drawn if o.plan == "zeropp")
    ends = max(span.end_s for span in outcome.trace.first.spans[0])  # type: ignore[union-attr]
    timeline = toy().timeline("zeropp")
    drawn = max(
        float(base) + float(width) for bar in timeline.data for base, width in zip(bar.base, bar.x, strict=True)
    )
    assert drawn == pytest.approx(ends)
    with pytest.raises(InputError, match="plan 'zero4': did you mean \"zero3\""):
        toy().timeline("zero4")
    with pytest.raises(InputError, match="figure 'rates': did you mean \"rate\""):
        toy().figure("rates")  # type: ignore[arg-type]


def test_the_page_is_that_of_the_command_line(tmp_path: Path) -> None:
    assert (
        invoke("run", TOY, "--plans", "zero3,zeropp", "--devices", "8", "--no-sensitivity", "--out", tmp_path).code == 0
    )
    assert toy().to_html() == (tmp_path / "index.html").read_text(encoding="utf-8")


@cache
def toy() -> sf.Comparison:
    return sf.compare(sf.load(TOY, plans=("zero3", "zeropp"), devices=(8,)))


def test_search_explanation_check_and_validation_take_the_path_of_a_scenario(tmp_path: Path) -> None:
    from simfrontier.explanation import explain
    from simfrontier.schedule import load
    from simfrontier.tuning import tune

    scenario = sf.load(TOY)
    assert sf.explain(TOY, "zero3", devices=8, what_if=False) == explain(scenario, "zero3", devices=8, what_if=False)
    pins = {"family": "zero", "micro_batch": 1}
    assert sf.tune(TOY, devices=8, pins=pins).best == tune(scenario, devices=8, pins=pins).best
    assert sf.check(TOY, "zero3", devices=8) == ()
    small = sf.load(TOY, {"machine.overrides.device.hbm_bytes": 1e4})
    assert "memory" in str(sf.check(small, "zero3", devices=8)[0])
    assert sf.check(small, "zero3", devices=8, memory=False) == ()
    path = sf.export(TOY, "zero3", devices=8, out=tmp_path / "schedule.json")
    assert load(path).mesh.num_ranks == 8


def test_validation_has_a_row_for_each_measured_time() -> None:
    table = sf.validate().frame()
    assert {"table", "measured_s", "predicted_s", "error", "use"} <= set(table.columns) and len(table) > 800


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
