"""Experiments: settings of a scenario in, one table of results out."""

from simfrontier.answers.experiments.environment import Environment as Environment, environment_of as environment_of
from simfrontier.answers.experiments.run import (
    OFF_BY as OFF_BY,
    REPLAY as REPLAY,
    REPLAYED as REPLAYED,
    Row as Row,
    RowRunner as RowRunner,
    question_digests as question_digests,
    simulate as simulate,
)
from simfrontier.answers.experiments.sensitivity import (
    Sensitivity as Sensitivity,
    VariedRates as VariedRates,
    run_sensitivity as run_sensitivity,
)
