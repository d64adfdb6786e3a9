"""Collective operations: the data that they move, and the algorithms by which a library moves it."""

from simfrontier.core.collectives.algorithms import (
    Algorithm as Algorithm,
    algorithm as algorithm,
    all_algorithms as all_algorithms,
    in_plans as in_plans,
)
from simfrontier.core.collectives.calibration import (
    HARNESS as HARNESS,
    RESIDUAL as RESIDUAL,
    Calibration as Calibration,
    CallTable as CallTable,
    ErrorSummary as ErrorSummary,
    FitRecord as FitRecord,
    LeftOutDevices as LeftOutDevices,
    MeasuredPoint as MeasuredPoint,
    load_calibration as load_calibration,
    merged as merged,
    write_calibration as write_calibration,
)
from simfrontier.core.collectives.chosen import (
    algorithms_left as algorithms_left,
    candidate_algorithms as candidate_algorithms,
    carriers as carriers,
    with_algorithms as with_algorithms,
)
from simfrontier.core.collectives.laws import (
    GroupShape as GroupShape,
    HopTimes as HopTimes,
    LowLatency as LowLatency,
    RingTimes as RingTimes,
    StepLaw as StepLaw,
)
from simfrontier.core.collectives.library import Library as Library, Residual as Residual, TwoLevelFile as TwoLevelFile
from simfrontier.core.collectives.load import (
    CATALOG as CATALOG,
    environments_of as environments_of,
    libraries as libraries,
    load_library as load_library,
    machine_numbers as machine_numbers,
)
from simfrontier.core.collectives.lowering import (
    LoweredSchedule as LoweredSchedule,
    load_lowered as load_lowered,
    lower as lower,
    prove as prove,
    save_lowered as save_lowered,
)
from simfrontier.core.collectives.traced import TracedCall as TracedCall, traced_call as traced_call
from simfrontier.core.collectives.transfers import (
    TRANSFERS as TRANSFERS,
    Lowered as Lowered,
    Meaning as Meaning,
    Recipe as Recipe,
    Transfer as Transfer,
)
from simfrontier.core.collectives.volume import (
    Message as Message,
    Part as Part,
    brought_bytes as brought_bytes,
    call_of as call_of,
    element_bytes as element_bytes,
    exchanged_bytes as exchanged_bytes,
    message_bytes as message_bytes,
    messages_of as messages_of,
    padding_of as padding_of,
    payload_share as payload_share,
    sent_and_received as sent_and_received,
    sent_part as sent_part,
    sent_share as sent_share,
    whole_side as whole_side,
    wire_of as wire_of,
)
