from .model import Shares as Shares
from .rows import goodput_rows as goodput_rows
from .yields import Goodput as Goodput, Yield as Yield, find_goodput as find_goodput
