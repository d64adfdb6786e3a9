"""Tuning: which plan to take: a search over the space of plans, AxoNN's grids by its authors' model, and searches that
plans of a scenario leave open."""

from simfrontier.tune.axonn import Ranking, rank_grids
from simfrontier.tune.grids import Searcher, Tried
from simfrontier.tune.openings import NothingFitsError
from simfrontier.tune.outcome import OwnPlan, TunedPlan, Tuning
from simfrontier.tune.tuning import tune

__all__ = ["NothingFitsError", "OwnPlan", "Ranking", "Searcher", "Tried", "TunedPlan", "Tuning", "rank_grids", "tune"]
