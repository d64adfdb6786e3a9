"""The network: a job's links, patterns of loads on them, fair rates, and folding of what is alike."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
