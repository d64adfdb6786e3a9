"""Tuning: which plan to take: a search over the space of plans, AxoNN's grids by its authors' model, and searches that
plans of a scenario leave open."""

from simfrontier.tune.axonn import GridRanking, rank_grids
from simfrontier.tune.grids import GridSearcher, TriedGrid
from simfrontier.tune.nothing_fits import NothingFitsError
from simfrontier.tune.outcome import OwnPlan, TunedPlan, TuningOutcome
from simfrontier.tune.tuning import tune

__all__ = [
    "GridRanking",
    "GridSearcher",
    "NothingFitsError",
    "OwnPlan",
    "TriedGrid",
    "TunedPlan",
    "TuningOutcome",
    "rank_grids",
    "tune",
]
