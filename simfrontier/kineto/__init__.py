"""Traces of PyTorch's profiler (Kineto): simulated steps as such, and measured jobs simulated again."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
