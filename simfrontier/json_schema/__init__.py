"""JSON Schema (draft 2020-12) of the TOML files that simfrontier reads, made of the forms that read them, for editors
that complete and check such files."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
