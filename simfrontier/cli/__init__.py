"""The command line: `app` has all verbs; what a verb does is in modules of its name."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
