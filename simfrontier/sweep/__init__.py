"""Studies of many points: a file of scenarios and axes, its points, their rows, and the data set of all of them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
