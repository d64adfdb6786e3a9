"""Accuracy: predictions compared with measured tables and published training runs, and fits of the model parameters."""

from simfrontier.answers.accuracy.call_tables import (
    Labels as Labels,
    calibration_of_files as calibration_of_files,
    date_of as date_of,
    faults_of as faults_of,
)
from simfrontier.answers.accuracy.fit_outcome import (
    FitOutcome as FitOutcome,
    Parameter as Parameter,
    error_summary as error_summary,
)
from simfrontier.answers.accuracy.fit_rows import (
    FitRows as FitRows,
    choose as choose,
    cross_validated as cross_validated,
    places_of as places_of,
)
from simfrontier.answers.accuracy.least_squares import fit as fit, problem_of as problem_of
from simfrontier.answers.accuracy.own_tables import validate_files as validate_files
from simfrontier.answers.accuracy.predictors.calls import (
    harnesses_of as harnesses_of,
    shipped_harnesses as shipped_harnesses,
)
from simfrontier.answers.accuracy.predictors.rates import BoundedRate as BoundedRate
from simfrontier.answers.accuracy.published_runs.facts import JobFacts as JobFacts, facts_of as facts_of
from simfrontier.answers.accuracy.published_runs.fit import load_parameters as load_parameters
from simfrontier.answers.accuracy.published_runs.job import PLAN as PLAN, Job as Job, job_of as job_of
from simfrontier.answers.accuracy.published_runs.left_out import step_factor as step_factor, sure_lead as sure_lead
from simfrontier.answers.accuracy.published_runs.listed import (
    ListedRun as ListedRun,
    find_runs as find_runs,
    listed_runs as listed_runs,
    run_named as run_named,
    runs_frame as runs_frame,
)
from simfrontier.answers.accuracy.published_runs.rates import Rate as Rate
from simfrontier.answers.accuracy.published_runs.step import (
    JobStep as JobStep,
    ModelKind as ModelKind,
    model_kind_of as model_kind_of,
)
from simfrontier.answers.accuracy.published_runs.table import (
    Run as Run,
    is_of_runs as is_of_runs,
    read_runs as read_runs,
    shipped_runs as shipped_runs,
)
from simfrontier.answers.accuracy.published_runs.validation import (
    Facet as Facet,
    PredictedRun as PredictedRun,
    RunsValidation as RunsValidation,
    validate_runs as validate_runs,
    validate_shipped_runs as validate_shipped_runs,
)
from simfrontier.answers.accuracy.published_runs.written import written_runs as written_runs
from simfrontier.answers.accuracy.residual import (
    Errors as Errors,
    Prediction as Prediction,
    Residual as Residual,
    Summary as Summary,
    Use as Use,
    errors_by as errors_by,
    grouped as grouped,
)
from simfrontier.answers.accuracy.validation import (
    JudgedBound as JudgedBound,
    Validation as Validation,
    validate_shipped as validate_shipped,
)
