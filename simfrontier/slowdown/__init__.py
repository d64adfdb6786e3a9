"""Slowdown: what trouble costs, by plan: a step with something wrong over a healthy one."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
