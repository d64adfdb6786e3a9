from .answers import check as check, explain as explain, export as export, tune as tune, validate as validate
from .comparison import Comparison as Comparison
from .scenarios import USUAL_PLANS as USUAL_PLANS, load as load, new_scenario as new_scenario
from .steps import compare as compare, simulate as simulate
from .views import num_simulations as num_simulations, view_of as view_of
