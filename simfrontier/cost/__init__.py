"""What an op takes alone, and what a collective takes alone: everything that needs a price asks here."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
