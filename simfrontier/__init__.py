"""simfrontier: how would this training plan run on that machine? Plans are placements; schedules follow from them."""

from simfrontier.base.errors import InputError, SimfrontierError
from simfrontier.base.version import __version__
from simfrontier.core.plan import plan_family
from simfrontier.interfaces.api import (
    Comparison,
    check,
    compare,
    explain,
    export,
    import_job,
    keys,
    load,
    machines,
    models,
    new_scenario,
    plans,
    runs,
    simulate,
    tune,
    validate,
)

__all__ = [
    "Comparison",
    "InputError",
    "SimfrontierError",
    "__version__",
    "check",
    "compare",
    "explain",
    "export",
    "import_job",
    "keys",
    "load",
    "machines",
    "models",
    "new_scenario",
    "plan_family",
    "plans",
    "runs",
    "simulate",
    "tune",
    "validate",
]


def __dir__() -> list[str]:
    return __all__
