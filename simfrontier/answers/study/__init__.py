"""Studies: simulation of the plans of a scenario at its sizes; rows of the results table and data for the plots."""

from simfrontier.answers.study.advice import advice_on as advice_on, shortage as shortage
from simfrontier.answers.study.columns import (
    BAND as BAND,
    COLUMNS as COLUMNS,
    RATE as RATE,
    RESULTS as RESULTS,
    Cell as Cell,
    Column as Column,
    Unit as Unit,
    different as different,
)
from simfrontier.answers.study.result_store import (
    STORE as STORE,
    HeldError as HeldError,
    ResultStore as ResultStore,
    forget as forget,
    store_in as store_in,
)
from simfrontier.answers.study.schedule_cache import (
    BuiltSchedule as BuiltSchedule,
    ScheduleCache as ScheduleCache,
    schedule_of as schedule_of,
    schedule_of_case as schedule_of_case,
)
from simfrontier.answers.study.settings import (
    Digests as Digests,
    Keyed as Keyed,
    Setting as Setting,
    digest_of as digest_of,
    inputs as inputs,
    scenario_digest as scenario_digest,
    versions as versions,
)
from simfrontier.answers.study.simulated_case import (
    ExportFormat as ExportFormat,
    SimulatedCase as SimulatedCase,
    neighbour_of as neighbour_of,
    notes_of as notes_of,
    simulated as simulated,
    stream_of as stream_of,
    write_simulated as write_simulated,
)
from simfrontier.answers.study.study import (
    PlanOutcome as PlanOutcome,
    Study as Study,
    advised as advised,
    completed as completed,
    outcome_of as outcome_of,
    run_case as run_case,
    run_study as run_study,
)
from simfrontier.answers.study.what_ifs import Answers as Answers, WhatIfs as WhatIfs
