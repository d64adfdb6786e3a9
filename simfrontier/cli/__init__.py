"""The command line: one module for each verb, and `app`, which has them all."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
