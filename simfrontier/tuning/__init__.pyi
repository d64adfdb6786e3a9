from .best import best_toml as best_toml
from .decide import decided as decided, only as only
from .evaluator import SimulatedPlan as SimulatedPlan
from .grids import GridSearcher as GridSearcher, NothingFitsError as NothingFitsError, TriedGrid as TriedGrid
from .lossy import LossyPolicy as LossyPolicy
from .outcome import (
    COLUMNS as COLUMNS,
    OwnPlan as OwnPlan,
    TunedPlan as TunedPlan,
    TuningOutcome as TuningOutcome,
    rows as rows,
)
from .pins import (
    DIMENSIONS as DIMENSIONS,
    Value as Value,
    parse_pin as parse_pin,
    pins_of as pins_of,
    written as written,
)
from .runner import SLACK as SLACK
from .small_steps import SmallSchedules as SmallSchedules
from .space import Candidate as Candidate
from .step_estimate import Estimate as Estimate, estimate as estimate
from .tuning import tune as tune
