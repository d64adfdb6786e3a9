"""What schedules use of codecs and types of numbers."""

from simfrontier.codecs import Codec, parse_codec
from simfrontier.dtypes import DTYPE_BYTES, FLOATS, INTEGERS

__all__ = ["DTYPE_BYTES", "FLOATS", "INTEGERS", "Codec", "parse_codec"]
