"""Scenarios: one TOML file per experiment, strictly validated, and the values to which the names in the file refer."""

from simfrontier.inputs.scenario.added_keys import (
    FileForm as FileForm,
    GridJob as GridJob,
    GridOrder as GridOrder,
    Listing as Listing,
    grid_orders as grid_orders,
)
from simfrontier.inputs.scenario.aliases import full_path as full_path, has_degrees as has_degrees, in_case as in_case
from simfrontier.inputs.scenario.batches import (
    USUAL_BATCH as USUAL_BATCH,
    tokens_of as tokens_of,
    usual_tokens as usual_tokens,
)
from simfrontier.inputs.scenario.case import Case as Case, mesh_of as mesh_of
from simfrontier.inputs.scenario.form import (
    GoodputTable as GoodputTable,
    PublishedTable as PublishedTable,
    RequiredTable as RequiredTable,
    ScenarioFile as ScenarioFile,
    SensitivityTable as SensitivityTable,
    SlowdownTable as SlowdownTable,
)
from simfrontier.inputs.scenario.keys import (
    ScenarioKey as ScenarioKey,
    known_keys as known_keys,
    plan_sentences as plan_sentences,
    scenario_keys as scenario_keys,
)
from simfrontier.inputs.scenario.load import (
    devices_of_nodes as devices_of_nodes,
    load_scenario as load_scenario,
    refuse_variations as refuse_variations,
    scenario_of as scenario_of,
)
from simfrontier.inputs.scenario.names import Kind as Kind, Named as Named, named as named
from simfrontier.inputs.scenario.plans import (
    SearchTable as SearchTable,
    options_of as options_of,
    plan_keys as plan_keys,
    unknown_family as unknown_family,
)
from simfrontier.inputs.scenario.scenario import Scenario as Scenario
from simfrontier.inputs.scenario.settings import (
    COMPARING as COMPARING,
    NUMBER_TABLES as NUMBER_TABLES,
    parse_setting as parse_setting,
    path_of as path_of,
    selected_plans as selected_plans,
    with_settings as with_settings,
    without_comparisons as without_comparisons,
)
from simfrontier.inputs.scenario.shipped import shipped as shipped
from simfrontier.inputs.scenario.variations import varied_numbers as varied_numbers, with_numbers as with_numbers
from simfrontier.inputs.scenario.words import plan_in_words as plan_in_words, split_plans as split_plans
