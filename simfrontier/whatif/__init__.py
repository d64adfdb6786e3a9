"""Thousands of what-ifs of one simulated step: step times on machines with other numbers, with how sure they are."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
