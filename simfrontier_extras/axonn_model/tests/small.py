"""Settings with which the scenarios run on a few devices."""

from tests.scenario_files import Small

TINY = ("model.name=tiny", "training.batch=64")
ADDS = (
    Small(scenario="axonn-frontier-weak-scaling", settings=TINY),
    Small(scenario="axonn-perlmutter-80b", settings=(*TINY, "tune.min_tensor=1")),
)
