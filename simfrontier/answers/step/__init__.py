"""Analysis: what a schedule moves, where a simulated step's time goes, and what no schedule can beat.

Only what needs no simulation is exported here; the other modules are imported by name.
"""

from simfrontier.answers.step.arrivals import WhoWaited as WhoWaited, who_waited as who_waited
from simfrontier.answers.step.bytes_moved import (
    BOUNDARIES as BOUNDARIES,
    PARTS as PARTS,
    SIDES as SIDES,
    MoveBytes as MoveBytes,
    SentBytes as SentBytes,
    Side as Side,
    Traffic as Traffic,
    moves_of as moves_of,
    sent_by_dimension as sent_by_dimension,
    traffic as traffic,
)
from simfrontier.answers.step.critical import (
    WAIT as WAIT,
    CriticalPath as CriticalPath,
    PathLevel as PathLevel,
    critical_path as critical_path,
)
from simfrontier.answers.step.exposed_time import (
    IDLE as IDLE,
    KERNELS_FIRST as KERNELS_FIRST,
    SLOWED as SLOWED,
    Exposure as Exposure,
    PartDifference as PartDifference,
    PartKey as PartKey,
    Spent as Spent,
    TimePart as TimePart,
    TimeSpent as TimeSpent,
    differences as differences,
    exposure as exposure,
    is_equal as is_equal,
    op_words as op_words,
    part_words as part_words,
    time_spent as time_spent,
    why_faster as why_faster,
)
from simfrontier.answers.step.links_over_time import (
    DRAWN_PARTS as DRAWN_PARTS,
    LinkLoad as LinkLoad,
    LinkUse as LinkUse,
    NodeLinks as NodeLinks,
    by_class as by_class,
    link_use as link_use,
    node_links as node_links,
    shares_of_node as shares_of_node,
)
from simfrontier.answers.step.model_calls import (
    Gathers as Gathers,
    Softmaxes as Softmaxes,
    gathers as gathers,
    softmaxes as softmaxes,
)
from simfrontier.answers.step.stages import (
    OUTSIDE as OUTSIDE,
    Stages as Stages,
    StageSpan as StageSpan,
    stages_of as stages_of,
)
from simfrontier.answers.step.trace_of_step import arrows_of as arrows_of, step_trace as step_trace
from simfrontier.answers.step.uncertainty import (
    NORMAL_90 as NORMAL_90,
    Spread as Spread,
    Waits as Waits,
    band_of as band_of,
    probability_faster as probability_faster,
    sampled_step_s as sampled_step_s,
    sampled_waits as sampled_waits,
    spread_of as spread_of,
)
from simfrontier.answers.step.volumes import (
    RequiredBytes as RequiredBytes,
    bounds as bounds,
    op_need as op_need,
    step_needs as step_needs,
)
