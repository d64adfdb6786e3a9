"""What training engines and the kernels under them do: software stacks from TOML files, in which numbers carry their
source."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
