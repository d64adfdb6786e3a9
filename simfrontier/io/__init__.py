"""Reading: a text as a bounded document, a document as the frozen value that the program uses, a fault as one line."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
