"""Python API: scenarios, single steps, comparisons, searches, explanations, validation, names."""

from simfrontier.interfaces.api.answers import (
    check as check,
    compare as compare,
    explain as explain,
    export as export,
    runs as runs,
    simulate as simulate,
    tune as tune,
    validate as validate,
)
from simfrontier.interfaces.api.comparison import (
    Comparison as Comparison,
    num_simulations as num_simulations,
    view_of as view_of,
)
from simfrontier.interfaces.api.job_files import import_job as import_job
from simfrontier.interfaces.api.names import keys as keys, machines as machines, models as models, plans as plans
from simfrontier.interfaces.api.scenarios import USUAL_PLANS as USUAL_PLANS, load as load, new_scenario as new_scenario
