"""Workloads: models as graphs of ops on logical tensors, and the catalog of named shapes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
