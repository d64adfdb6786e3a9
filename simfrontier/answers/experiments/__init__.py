"""Experiments: settings of a scenario in, one table of results out."""

from simfrontier.answers.experiments.digests import Digests as Digests, Keyed as Keyed, Setting as Setting
from simfrontier.answers.experiments.environment import Environment as Environment, environment_of as environment_of
from simfrontier.answers.experiments.replay import (
    OFF_BY as OFF_BY,
    REPLAY as REPLAY,
    REPLAYED as REPLAYED,
    question_digests as question_digests,
)
from simfrontier.answers.experiments.results import simulate as simulate
from simfrontier.answers.experiments.row_runner import Row as Row, RowRunner as RowRunner
from simfrontier.answers.experiments.sensitivity import (
    Sensitivity as Sensitivity,
    VariedRates as VariedRates,
    run_sensitivity as run_sensitivity,
)
