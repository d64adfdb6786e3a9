"""Plans: where the states of a model lie on the mesh, and the schedules that follow from it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
