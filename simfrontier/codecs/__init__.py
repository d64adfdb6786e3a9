"""Codecs: how the elements of a message are written on the wire. A family is one file; `parse_codec` finds it by name.

A new family: a file with a frozen dataclass that is a `Codec`, `NAMES`, `parse`, and `TIMED`, the names whose speed a
machine's file may have (device.codecs.NAME); to execute it, a file of the same name in simfrontier_real.codecs.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
