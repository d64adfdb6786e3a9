"""Simulation: ops priced on a machine, and SimPy's clock over folded ranks."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
