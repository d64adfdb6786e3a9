"""Accuracy: predictions compared with measured tables and published runs, and fits of what the models are made of."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
