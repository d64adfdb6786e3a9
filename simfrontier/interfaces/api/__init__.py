"""Python API: scenarios, single steps, comparisons, searches, explanations, validation."""

from simfrontier.interfaces.api.answers import (
    check as check,
    explain as explain,
    export as export,
    tune as tune,
    validate as validate,
)
from simfrontier.interfaces.api.comparison import Comparison as Comparison
from simfrontier.interfaces.api.scenarios import USUAL_PLANS as USUAL_PLANS, load as load, new_scenario as new_scenario
from simfrontier.interfaces.api.steps import compare as compare, simulate as simulate
from simfrontier.interfaces.api.views import num_simulations as num_simulations, view_of as view_of
