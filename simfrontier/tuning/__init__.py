"""Tuning: which plan to take: a search over the space of plans, and searches that plans of a scenario
leave open."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
