"""Experiments: settings of a scenario in, one table of results out."""

from simfrontier.experiments.batches import Keyed as Keyed
from simfrontier.experiments.digests import Digests as Digests
from simfrontier.experiments.environment import Environment as Environment, environment_of as environment_of
from simfrontier.experiments.replay import OFF_BY as OFF_BY, REPLAY as REPLAY, REPLAYED as REPLAYED, question_digests as question_digests
from simfrontier.experiments.results import simulate as simulate
from simfrontier.experiments.row_runner import Row as Row, RowRunner as RowRunner
from simfrontier.experiments.sensitivity import Sensitivity as Sensitivity, VariedRates as VariedRates, run_sensitivity as run_sensitivity
from simfrontier.experiments.setting import Setting as Setting
