"""Scenarios: one TOML file per experiment, checked strictly, and what its names mean."""

from simfrontier.scenario.form import PublishedTable, RequiredTable, ScenarioFile
from simfrontier.scenario.load import Scenario, load_scenario, parse_setting, scenario_of

__all__ = [
    "PublishedTable",
    "RequiredTable",
    "Scenario",
    "ScenarioFile",
    "load_scenario",
    "parse_setting",
    "scenario_of",
]
