"""simfrontier: how would this training plan run on that machine? Plans are placements; schedules follow from them."""

__version__ = "0.1.0"

from simfrontier.api import (
    Comparison as Comparison,
    check as check,
    compare as compare,
    explain as explain,
    export as export,
    load as load,
    new_scenario as new_scenario,
    simulate as simulate,
    tune as tune,
    validate as validate,
)
from simfrontier.errors import InputError as InputError, SimfrontierError as SimfrontierError
from simfrontier.plan import plan_family as plan_family
