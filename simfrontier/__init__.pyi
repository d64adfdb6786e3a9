from .api import compare as compare, load as load, simulate as simulate
from .explanation import explain as explain
from .tuning import tune as tune

__version__: str
