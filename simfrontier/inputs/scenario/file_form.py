"""The form of scenario files with the tables that extras add to them."""

from __future__ import annotations

from typing import Final

from simfrontier.base.extras import added
from simfrontier.base.io import extended
from simfrontier.inputs.scenario.added_keys import ScenarioKeys
from simfrontier.inputs.scenario.form import ScenarioFile

SCENARIO_KEYS: Final = added("scenario_keys", ScenarioKeys)
FileForm: Final = extended(ScenarioFile, [keys.form for keys in SCENARIO_KEYS], "FileForm", __name__)
