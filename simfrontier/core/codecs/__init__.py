"""Codecs: how the elements of a message are written on the wire. A family is one file; `parse_codec` finds it by name.

A new family: a file with a frozen dataclass that is a `Codec`, `NAMES`, `parse`, and `TIMED`, the names whose speed a
machine's file may have (device.codecs.NAME); to execute it, a file of the same name in simfrontier_real.ops.codecs.
"""

from simfrontier.core.codecs.codec import Codec as Codec
from simfrontier.core.codecs.mpc import WORD_BYTES as WORD_BYTES, Mpc as Mpc
from simfrontier.core.codecs.plain import Plain as Plain
from simfrontier.core.codecs.quantised import Quantised as Quantised
from simfrontier.core.codecs.registry import parse_codec as parse_codec, timed_codecs as timed_codecs
from simfrontier.core.codecs.zfp import BLOCK as BLOCK, Zfp as Zfp
