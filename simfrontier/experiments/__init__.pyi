from .batches import Keyed as Keyed
from .digests import Digests as Digests
from .environment import Environment as Environment, environment_of as environment_of
from .replay import OFF_BY as OFF_BY, REPLAY as REPLAY, REPLAYED as REPLAYED, question_digests as question_digests
from .results import simulate as simulate
from .row_runner import Row as Row, RowRunner as RowRunner
from .sensitivity import Sensitivity as Sensitivity, VariedRates as VariedRates, run_sensitivity as run_sensitivity
from .setting import Setting as Setting
