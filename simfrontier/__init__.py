"""simfrontier: how would this training plan run on that machine? Plans are placements; schedules follow from them.

    >>> import simfrontier as sf
    >>> sf.compare("frontier", "gpt-13b", ["zero3", "hsdp"], devices=[8, 64])

`compare` says which plan is the fastest, `explain` why, `tune` searches for a better one; `runs` lists published runs
and `validate` measured times beside predictions. `models`, `machines`, `plans` and `keys` list what may be named;
`load`, `new_scenario` and `import_job` return scenarios. `simulate`, `check` and `export` are for a single step,
`plan_family` for a plan of your own. The help of each has its parameters and returned columns.
"""

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
