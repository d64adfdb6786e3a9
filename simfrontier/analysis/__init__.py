"""Analysis: what a schedule moves, where a simulated step's time goes, and what no schedule can beat.

Only what needs no simulation is exported here; the other modules are imported by name.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
