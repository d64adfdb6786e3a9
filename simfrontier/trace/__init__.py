"""Traces: when every op ran, in one schema for simulation and reality; their file, and how two of them compare."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
