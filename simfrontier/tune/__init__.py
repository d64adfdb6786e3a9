"""Tuning: which plan of a scenario to take: AxoNN's grids by its authors' model, and searches that plans leave open."""

from simfrontier.tune.grids import NothingFitsError, Searcher, Tried
from simfrontier.tune.search import Ranking, rank_grids

__all__ = ["NothingFitsError", "Ranking", "Searcher", "Tried", "rank_grids"]
