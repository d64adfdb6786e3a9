"""What a long training yields: failures, checkpoints, restarts and spare nodes, and how many useful steps a day are
left."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
