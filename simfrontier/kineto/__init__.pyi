from .changed_job import (
    on_ranks as on_ranks,
    otherwise as otherwise,
    with_gathers_in_nodes as with_gathers_in_nodes,
    with_kernels as with_kernels,
)
from .export import KINETO as KINETO
from .job import Job as Job, read_job as read_job
from .platform import Platform as Platform, difference as difference, platform_of as platform_of
from .replay import CallTimes as CallTimes, call_times as call_times, replayed as replayed
