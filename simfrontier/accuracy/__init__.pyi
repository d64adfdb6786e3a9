from .bounds import JudgedBound as JudgedBound, load_bounds as load_bounds
from .errors import EVERYTHING as EVERYTHING, Errors as Errors, Summary as Summary
from .fitting.cross import cross_validated as cross_validated, places_of as places_of
from .fitting.least_squares import fit as fit, problem_of as problem_of
from .fitting.outcome import FitOutcome as FitOutcome, Parameter as Parameter, far_of as far_of
from .fitting.parameters import with_numbers as with_numbers
from .fitting.rows import FitRows as FitRows, choose as choose, named as named
from .predictors.calls import KINDS as KINDS, CallPredictor as CallPredictor, shown_fault as shown_fault
from .predictors.fitted_rows import FITS as FITS, fitted_rows as fitted_rows, was_fitted as was_fitted
from .predictors.harness import (
    Harness as Harness,
    harnesses_of as harnesses_of,
    named_harnesses as named_harnesses,
    shipped_harnesses as shipped_harnesses,
)
from .predictors.rates import BoundedRate as BoundedRate
from .predictors.shipped import shipped_models as shipped_models
from .published_runs.job import Unread as Unread
from .published_runs.parameters import load_parameters as load_parameters, mean_step_error as mean_step_error
from .published_runs.table import is_of_runs as is_of_runs, read_runs as read_runs
from .published_runs.validation import (
    HeldRun as HeldRun,
    RunErrors as RunErrors,
    RunsValidation as RunsValidation,
    validate_runs as validate_runs,
    validate_shipped_runs as validate_shipped_runs,
)
from .residual import (
    AVERAGED as AVERAGED,
    ONLY_BOUNDED as ONLY_BOUNDED,
    UNSEEN as UNSEEN,
    ComparedRow as ComparedRow,
    NotCovered as NotCovered,
    Prediction as Prediction,
    Use as Use,
)
from .validation import Validation as Validation, validate as validate
