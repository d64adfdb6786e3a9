from .codec import Codec as Codec
from .mpc import WORD_BYTES as WORD_BYTES, Mpc as Mpc
from .plain import Plain as Plain
from .quantised import Quantised as Quantised
from .registry import parse_codec as parse_codec, timed_codecs as timed_codecs
from .zfp import BLOCK as BLOCK, Zfp as Zfp
