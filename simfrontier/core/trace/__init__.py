"""Traces: times of every op, in one schema for simulated and real runs; trace files; and the comparison of two
traces."""

from simfrontier.core.trace import kineto as kineto
from simfrontier.core.trace.comparison import Comparison as Comparison, OpPair as OpPair, compare as compare
from simfrontier.core.trace.crosscheck import (
    AddedCheck as AddedCheck,
    AddedCheckReader as AddedCheckReader,
    CrossCheck as CrossCheck,
    TracePaths as TracePaths,
    crosscheck_of as crosscheck_of,
)
from simfrontier.core.trace.perfetto import (
    perfetto_text as perfetto_text,
    read_perfetto as read_perfetto,
    write_perfetto as write_perfetto,
)
from simfrontier.core.trace.table import (
    CALIBRATION as CALIBRATION,
    CALIBRATION_RESIDUAL as CALIBRATION_RESIDUAL,
    HELD_RANKS as HELD_RANKS,
    OTHERS_SHARE as OTHERS_SHARE,
    SHOWN_DIGITS as SHOWN_DIGITS,
    SIMULATED as SIMULATED,
    Arrow as Arrow,
    Counter as Counter,
    LinkBytes as LinkBytes,
    LinkTable as LinkTable,
    Mark as Mark,
    Place as Place,
    Process as Process,
    Span as Span,
    Trace as Trace,
    TraceFile as TraceFile,
    arrows_from_last as arrows_from_last,
    file_of as file_of,
    load_links as load_links,
    ranges_text as ranges_text,
    rank_text as rank_text,
    ranks_of_text as ranks_of_text,
    save_links as save_links,
)
from simfrontier.core.trace.verdict import (
    Delta as Delta,
    PlanStepTimes as PlanStepTimes,
    axis_sizes as axis_sizes,
    deltas as deltas,
    duration as duration,
    quotient as quotient,
    step_times as step_times,
)
