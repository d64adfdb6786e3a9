"""Rows as a pandas table: numbers are numbers, and what does not fit has no times."""

import math

from simfrontier.scenario import load_scenario
from simfrontier.study import COLUMNS, run_study


def test_frame_has_the_contract_columns_and_numbers() -> None:
    scenario = load_scenario("scenarios/frontier-20b.toml", plans=("zero3", "zero1"), devices=(8, 16))
    table = run_study(scenario, "analytic").frame()
    assert tuple(table.columns) == COLUMNS
    assert table["step_time_s"].dtype == float
    by_plan = table.set_index(["plan", "devices"])["step_time_s"]
    assert by_plan["zero3", 8] > 0
    assert math.isnan(by_plan["zero1", 8])
