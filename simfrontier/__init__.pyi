from .api import (
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
from .errors import InputError as InputError, SimfrontierError as SimfrontierError
from .plan import plan_family as plan_family

__version__: str
