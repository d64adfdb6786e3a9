"""Codecs: how the elements of a message are written on the wire. A family is one file; `parse_codec` finds it by name.

A new family: a file with a frozen dataclass that is a `Codec`, `NAMES` and `parse`; its speed stands in a machine's
file (device.codecs.NAME); to execute it, a file of the same name in simfrontier_real.codecs.
"""

from simfrontier.codecs.codec import Codec
from simfrontier.codecs.plain import Plain
from simfrontier.codecs.quantised import Quantised
from simfrontier.codecs.registry import parse_codec

__all__ = ["Codec", "Plain", "Quantised", "parse_codec"]
