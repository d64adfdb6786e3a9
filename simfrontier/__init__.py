"""simfrontier: how would this training plan run on that machine? Plans are placements; schedules follow from them."""

from simfrontier.base.errors import InputError as InputError, SimfrontierError as SimfrontierError
from simfrontier.base.version import __version__ as __version__
from simfrontier.core.plan import plan_family as plan_family
from simfrontier.interfaces.api import (
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
