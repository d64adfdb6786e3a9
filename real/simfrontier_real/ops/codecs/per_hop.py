"""Per-hop coding: each message between two ranks of a collective is encoded before it is sent and decoded on
arrival."""

from __future__ import annotations

from dataclasses import dataclass

from simfrontier.core.codecs import Codec
from simfrontier_real.ops.arrays import Array, Backend, numpy_backend, torch_backend
from simfrontier_real.ops.codecs import decode, encode
from simfrontier_real.ops.codecs.encoded import from_bytes, to_bytes, type_of


@dataclass(frozen=True, slots=True)
class PerHopCoder:
    """Encodes and decodes the messages of one collective; `dtype` is the type of the numbers."""

    backend: Backend
    codec: Codec
    dtype: str

    @classmethod
    def of(cls, message: Array, codec: Codec) -> PerHopCoder:
        """Return a coder for messages of the same type and library as `message`."""
        backend = torch_backend(str(message.device)) if hasattr(message, "detach") else numpy_backend()
        return cls(backend, codec, type_of(message))

    def sent(self, values: Array) -> Array:
        """Encode numbers [n] and return the bytes to be sent."""
        return self.backend.concat(to_bytes(self.backend, encode(self.backend, values.reshape(1, -1), self.codec)))

    def room(self, count: int) -> Array:
        """Return a receive buffer for the bytes of `count` encoded numbers."""
        return self.backend.empty((self.codec.wire_bytes(count),), "uint8")

    def arrived(self, line: Array, count: int) -> Array:
        """Decode received bytes to numbers [count]."""
        held = from_bytes(self.backend, line, self.codec, count)
        return decode(self.backend, held, self.codec, count, self.dtype).reshape(-1)
