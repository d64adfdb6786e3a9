"""Codecs: encodings of messages on the wire; `parse_codec` returns the codec that a text describes.

To add a family, define a frozen dataclass in `families`; to execute it, add a file of the same name in
simfrontier_real.ops.codecs.
"""

from simfrontier.core.codecs.codec import Codec as Codec
from simfrontier.core.codecs.families import (
    BLOCK as BLOCK,
    WORD_BYTES as WORD_BYTES,
    Mpc as Mpc,
    Plain as Plain,
    Quantised as Quantised,
    Zfp as Zfp,
    parse_codec as parse_codec,
    timed_codecs as timed_codecs,
    wire_codec as wire_codec,
)
