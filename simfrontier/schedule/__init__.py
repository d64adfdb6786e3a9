"""The schedule: what every rank does in one step, never how long it takes; checked, stored and drawn."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
