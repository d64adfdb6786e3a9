"""Settings with which the scenario runs on a few devices."""

from tests.scenario_files import Small

_SETTINGS = ("model.name=tiny", "plans.*.pipeline=2", "plans.*.tensor=2", "plans.*.compress_from=0")
ADDS = (Small(scenario="lassen-neox-20b", settings=_SETTINGS),)
