"""Fitting: a library's free parameters by robust least squares on measured times, and how well they hold elsewhere."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
