from .batches import Keyed as Keyed, is_number as is_number
from .digests import Digests as Digests
from .results import run as run, simulate as simulate
from .row_runner import Row as Row, RowRunner as RowRunner
from .setting import Setting as Setting
