from .comparison import Comparison as Comparison, OpPair as OpPair, compare as compare
from .delta import (
    CrossCheck as CrossCheck,
    Delta as Delta,
    PlanStepTimes as PlanStepTimes,
    deltas as deltas,
    duration as duration,
    judge as judge,
    step_times as step_times,
)
from .limits import AgreementLimit as AgreementLimit, limits_of as limits_of
from .links import (
    JUDGED_BYTES as JUDGED_BYTES,
    WITHIN as WITHIN,
    LinkBytes as LinkBytes,
    LinkCheck as LinkCheck,
    LinkPair as LinkPair,
    LinkTable as LinkTable,
    compare_links as compare_links,
    load_links as load_links,
    save_links as save_links,
)
from .perfetto import perfetto_events as perfetto_events, write_perfetto as write_perfetto
from .read import read_perfetto as read_perfetto
from .slowed import SlowLinkEffect as SlowLinkEffect, load_slowed as load_slowed, save_slowed as save_slowed
from .sweep import (
    ALLOWED as ALLOWED,
    LEAST_JUDGED_BYTES as LEAST_JUDGED_BYTES,
    Implementation as Implementation,
    SweepMedian as SweepMedian,
    SweepPoint as SweepPoint,
    load_sweep as load_sweep,
    save_sweep as save_sweep,
    sweep_medians as sweep_medians,
)
from .table import SHOWN_DIGITS as SHOWN_DIGITS, Span as Span, Trace as Trace
