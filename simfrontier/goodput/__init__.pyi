from .failures import Failures as Failures, load_failures as load_failures
