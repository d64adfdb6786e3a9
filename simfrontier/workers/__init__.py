"""Doing many things at once: calls on worker processes, here or on other machines, by Dask."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
