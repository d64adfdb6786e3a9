"""Tuning: search over the space of plans for the fastest one that fits, and searches over plan options that a scenario
leaves open.
"""

from simfrontier.answers.search.evaluator import SLACK as SLACK, SimulatedPlan as SimulatedPlan
from simfrontier.answers.search.grids import (
    GridSearcher as GridSearcher,
    NothingFitsError as NothingFitsError,
    TriedGrid as TriedGrid,
    decided as decided,
    only as only,
)
from simfrontier.answers.search.outcome import (
    COLUMNS as COLUMNS,
    OwnPlan as OwnPlan,
    TunedPlan as TunedPlan,
    TuningOutcome as TuningOutcome,
    best_toml as best_toml,
    rows as rows,
)
from simfrontier.answers.search.pins import (
    DIMENSIONS as DIMENSIONS,
    LossyPolicy as LossyPolicy,
    Value as Value,
    parse_pin as parse_pin,
    pins_of as pins_of,
    written as written,
)
from simfrontier.answers.search.small_steps import SmallSchedules as SmallSchedules
from simfrontier.answers.search.space import Candidate as Candidate
from simfrontier.answers.search.step_estimate import Estimate as Estimate, estimate as estimate
from simfrontier.answers.search.tuning import tune as tune
