"""Measurements: rows of calls, copies and rates, readers of their files, and shipped tables with their sources."""

from simfrontier.inputs.measured.call_table import read_calls as read_calls
from simfrontier.inputs.measured.device_tables import (
    KERNEL_COLUMNS as KERNEL_COLUMNS,
    PRODUCT_COLUMNS as PRODUCT_COLUMNS,
    columns_of as columns_of,
    read_of_device as read_of_device,
)
from simfrontier.inputs.measured.formats import (
    files_in as files_in,
    format_of as format_of,
    is_table as is_table,
    readings as readings,
)
from simfrontier.inputs.measured.index import (
    Pathology as Pathology,
    Table as Table,
    call_faults as call_faults,
    fault_of as fault_of,
    load_table as load_table,
    load_tables as load_tables,
)
from simfrontier.inputs.measured.nccl_tests import placed as placed, read_log as read_log
from simfrontier.inputs.measured.reading import Reading as Reading, Setup as Setup, Unusable as Unusable
from simfrontier.inputs.measured.rows import (
    CallRow as CallRow,
    CopyRow as CopyRow,
    KernelKind as KernelKind,
    KernelRow as KernelRow,
    RateRow as RateRow,
    Row as Row,
)
from simfrontier.inputs.measured.table_file import Line as Line, read_lines as read_lines
