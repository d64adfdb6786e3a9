"""Measurements: rows of calls, copies and rates, readers of their files, and shipped tables with their sources."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
