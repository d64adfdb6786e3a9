"""Measurements: rows of collective times, copy times and compute rates, readers of measured files, and the tables
shipped with simfrontier and their sources."""

from simfrontier.inputs.measured.formats import (
    files_in as files_in,
    format_of as format_of,
    is_table as is_table,
    readings as readings,
)
from simfrontier.inputs.measured.index import (
    STEPS as STEPS,
    Pathology as Pathology,
    Table as Table,
    call_faults as call_faults,
    fault_of as fault_of,
    load_table as load_table,
    load_tables as load_tables,
)
from simfrontier.inputs.measured.nccl_tests import read_log as read_log
from simfrontier.inputs.measured.reading import Reading as Reading, Setup as Setup, Unusable as Unusable
from simfrontier.inputs.measured.rows import (
    CallRow as CallRow,
    ClassRow as ClassRow,
    CopyRow as CopyRow,
    KernelKind as KernelKind,
    KernelRow as KernelRow,
    RateRow as RateRow,
    Row as Row,
    RowPlace as RowPlace,
)
from simfrontier.inputs.measured.tables import (
    KERNEL_COLUMNS as KERNEL_COLUMNS,
    PRODUCT_COLUMNS as PRODUCT_COLUMNS,
    Line as Line,
    columns_of as columns_of,
    read_calls as read_calls,
    read_lines as read_lines,
    read_of_device as read_of_device,
    read_rows as read_rows,
)
