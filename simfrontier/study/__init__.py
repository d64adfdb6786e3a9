"""Studies: the plans of a scenario at its sizes, simulated; rows for the table and what the page draws."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
