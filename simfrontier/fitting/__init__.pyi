from .cross import cross_validated as cross_validated, places_of as places_of
from .data import FitRows as FitRows, choose as choose, named as named
from .least_squares import fit as fit, problem_of as problem_of
from .outcome import FitOutcome as FitOutcome, Parameter as Parameter, far_of as far_of
from .parameters import with_numbers as with_numbers
