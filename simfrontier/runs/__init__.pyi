from .job import Unread as Unread
from .parameters import load_parameters as load_parameters, mean_step_error as mean_step_error
from .table import is_of_runs as is_of_runs, read_runs as read_runs
from .validation import (
    HeldRun as HeldRun,
    RunErrors as RunErrors,
    RunsValidation as RunsValidation,
    validate_runs as validate_runs,
    validate_shipped_runs as validate_shipped_runs,
)
