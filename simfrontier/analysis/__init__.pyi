from .arrivals import WhoWaited as WhoWaited, who_waited as who_waited
from .arrows import arrows_of as arrows_of
from .attribution import (
    PartDifference as PartDifference,
    differences as differences,
    is_equal as is_equal,
    op_words as op_words,
    part_words as part_words,
    why_faster as why_faster,
)
from .bytes_moved import (
    BOUNDARIES as BOUNDARIES,
    PARTS as PARTS,
    MoveBytes as MoveBytes,
    Traffic as Traffic,
    moves_of as moves_of,
    traffic as traffic,
)
from .critical import WAIT as WAIT, CriticalPath as CriticalPath, PathLevel as PathLevel, critical_path as critical_path
from .dimensions import SIDES as SIDES, SentBytes as SentBytes, Side as Side, sent_by_dimension as sent_by_dimension
from .exposed_time import (
    IDLE as IDLE,
    KERNELS_FIRST as KERNELS_FIRST,
    SLOWED as SLOWED,
    Exposure as Exposure,
    Spent as Spent,
    TimePart as TimePart,
    TimeSpent as TimeSpent,
    exposure as exposure,
    time_spent as time_spent,
)
from .links import LinkLoad as LinkLoad, NodeLinks as NodeLinks, node_links as node_links
from .links_over_time import (
    DRAWN_PARTS as DRAWN_PARTS,
    LinkUse as LinkUse,
    by_class as by_class,
    link_use as link_use,
    shares_of_node as shares_of_node,
)
from .softmax import Softmaxes as Softmaxes, softmaxes as softmaxes
from .stages import OUTSIDE as OUTSIDE, Stages as Stages, StageSpan as StageSpan, stages_of as stages_of
from .step_bounds import bounds as bounds
from .trace_of_step import step_trace as step_trace
from .uncertainty import (
    NORMAL_90 as NORMAL_90,
    Spread as Spread,
    Waits as Waits,
    band_of as band_of,
    probability_faster as probability_faster,
    sampled_step_s as sampled_step_s,
    sampled_waits as sampled_waits,
    spread_of as spread_of,
)
from .volumes import RequiredBytes as RequiredBytes, op_need as op_need, step_needs as step_needs
from .weight_gathers import Gathers as Gathers, gathers as gathers
