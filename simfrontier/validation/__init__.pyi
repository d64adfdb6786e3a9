from .bounds import JudgedBound as JudgedBound, load_bounds as load_bounds
from .calls import (
    KINDS as KINDS,
    CallPredictor as CallPredictor,
    groups_of as groups_of,
    lacking as lacking,
    other_place as other_place,
    shown_fault as shown_fault,
)
from .fits import FITS as FITS, fitted_rows as fitted_rows, was_fitted as was_fitted
from .harness import (
    Harness as Harness,
    harnesses_of as harnesses_of,
    named_harnesses as named_harnesses,
    shipped_harnesses as shipped_harnesses,
)
from .models import shipped_models as shipped_models
from .outcome import (
    AVERAGED as AVERAGED,
    ONLY_BOUNDED as ONLY_BOUNDED,
    UNSEEN as UNSEEN,
    ComparedRow as ComparedRow,
    NotCovered as NotCovered,
    Prediction as Prediction,
    Use as Use,
)
from .rates import BoundedRate as BoundedRate
from .run import Validation as Validation, validate as validate
from .summary import EVERYTHING as EVERYTHING, Errors as Errors, Summary as Summary
