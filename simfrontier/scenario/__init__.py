"""Scenarios: one TOML file per experiment, checked strictly, and what its names mean."""

from simfrontier.scenario.case import Case
from simfrontier.scenario.form import PublishedTable, RequiredTable, ScenarioFile, SensitivityTable
from simfrontier.scenario.load import Scenario, load_scenario, scenario_of
from simfrontier.scenario.plans import SearchTable
from simfrontier.scenario.settings import parse_setting

__all__ = [
    "Case",
    "PublishedTable",
    "RequiredTable",
    "Scenario",
    "ScenarioFile",
    "SearchTable",
    "SensitivityTable",
    "load_scenario",
    "parse_setting",
    "scenario_of",
]
