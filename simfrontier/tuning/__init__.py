"""Tuning: which plan to take: a search over the space of plans, and searches that plans of a scenario
leave open."""

from simfrontier.tuning.best import best_toml as best_toml
from simfrontier.tuning.decide import decided as decided, only as only
from simfrontier.tuning.evaluator import SimulatedPlan as SimulatedPlan
from simfrontier.tuning.grids import GridSearcher as GridSearcher, NothingFitsError as NothingFitsError, TriedGrid as TriedGrid
from simfrontier.tuning.lossy import LossyPolicy as LossyPolicy
from simfrontier.tuning.outcome import (
    COLUMNS as COLUMNS,
    OwnPlan as OwnPlan,
    TunedPlan as TunedPlan,
    TuningOutcome as TuningOutcome,
    rows as rows,
)
from simfrontier.tuning.pins import (
    DIMENSIONS as DIMENSIONS,
    Value as Value,
    parse_pin as parse_pin,
    pins_of as pins_of,
    written as written,
)
from simfrontier.tuning.runner import SLACK as SLACK
from simfrontier.tuning.small_steps import SmallSchedules as SmallSchedules
from simfrontier.tuning.space import Candidate as Candidate
from simfrontier.tuning.step_estimate import Estimate as Estimate, estimate as estimate
from simfrontier.tuning.tuning import tune as tune
