from .failures import Failures as Failures
from .fewer import FewerNodes as FewerNodes
from .model import Shares as Shares
from .yields import Goodput as Goodput, Yield as Yield, find_goodput as find_goodput
