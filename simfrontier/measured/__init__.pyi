from .csv_calls import read_calls as read_calls
from .csv_kernels import KERNEL_COLUMNS as KERNEL_COLUMNS
from .csv_rates import PRODUCT_COLUMNS as PRODUCT_COLUMNS
from .csvfile import Line as Line, read_lines as read_lines
from .folders import files_in as files_in
from .index import (
    Pathology as Pathology,
    Row as Row,
    Table as Table,
    call_faults as call_faults,
    fault_of as fault_of,
    load_table as load_table,
    load_tables as load_tables,
)
from .of_device import read_of_device as read_of_device
from .of_tables import placed as placed
from .read import readings as readings
from .reading import Reading as Reading
from .recognise import columns_of as columns_of, form_of as form_of, is_table as is_table
from .rows import (
    CallRow as CallRow,
    CopyRow as CopyRow,
    KernelKind as KernelKind,
    KernelRow as KernelRow,
    RateRow as RateRow,
)
from .setup import Setup as Setup
