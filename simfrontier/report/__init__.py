"""Reports of a study: the page that a person reads, the table and the manifest that a program reads."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
