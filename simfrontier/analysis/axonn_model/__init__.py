"""AxoNN's analytical model of communication, Versions A and B, as its authors published it: what every grid of
tensor and data parallelism costs, and the grids in the order of that."""

from simfrontier.analysis.axonn_model.bandwidth import VERSIONS, Bandwidths, VersionName, load_bandwidths
from simfrontier.analysis.axonn_model.formulas import CommTimes, comm_times
from simfrontier.analysis.axonn_model.grid import Grid, grids
from simfrontier.analysis.axonn_model.ranking import Ranked, ranked
from simfrontier.analysis.axonn_model.transformer import Layer, Transformer, transformer_of

__all__ = [
    "VERSIONS",
    "Bandwidths",
    "CommTimes",
    "Grid",
    "Layer",
    "Ranked",
    "Transformer",
    "VersionName",
    "comm_times",
    "grids",
    "load_bandwidths",
    "ranked",
    "transformer_of",
]
