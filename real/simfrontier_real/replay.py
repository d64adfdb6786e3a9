"""Replay: every op of a schedule on buffers of the right sizes; real collectives and codecs, values irrelevant."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any, Literal

from simfrontier.errors import InputError
from simfrontier.schedule.codec import Codec
from simfrontier.schedule.cost import matmul_shape, traffic_bytes
from simfrontier.schedule.ir import Compute, Ref, Tensor
from simfrontier.trace import Trace
from simfrontier_real.arrays import Array
from simfrontier_real.codecs import Encoded
from simfrontier_real.kernels import MODEL_KERNELS
from simfrontier_real.local import LOCAL_KERNELS
from simfrontier_real.states import instances
from simfrontier_real.work import Kernel, RealWork, Site

ComputeMode = Literal["real", "wait", "none"]
_FLOATS = ("fp64", "fp32", "fp16", "bf16")


@dataclass
class Stand:
    """Kernels that stand for the model's: outputs of the right size, and time spent as the mode says.

    real: matrix products of the op's local shape and copies of as many bytes as the op moves, on scratch memory; wait:
    sleep until as long after the op was ready as it takes in `waits` (per op, seconds); none: no time.
    """

    mode: ComputeMode
    waits: list[float] | None = None
    scratch: dict[tuple[Any, ...], Array] = field(default_factory=dict)
    blanks: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def kernels(self) -> dict[str, Kernel]:
        """By kind; where compute is real, so are the codecs and the other local moves."""
        stand = dict.fromkeys(("loss", "norm2", "adam", *MODEL_KERNELS), self.op)
        return {**stand, **(LOCAL_KERNELS if self.mode == "real" else dict.fromkeys(LOCAL_KERNELS, self.op))}

    def op(self, site: Site, index: int, op: Compute) -> None:
        """One op of the model (or any local op, where compute is not real)."""
        if self.mode == "real":
            self._spend(site, op)
        _, writes, added = site.operands(index)
        for ref in (*writes, *added):
            self.blank(site, ref)

    def blank(self, site: Site, ref: Ref) -> None:
        """A buffer of the right size where a collective may read it; activations are read by nobody here."""
        tensor = site.schedule.tensors[ref.name]
        if tensor.role in ("activation", "token", "optimizer"):
            return
        bundle = site.layouts.bundles.get(ref)
        if bundle is not None:
            whole = ("message", bundle.members, bundle.total, tensor.dtype)
            if whole not in self.blanks:
                self.blanks[whole] = site.backend.zeros((bundle.members, bundle.total), tensor.dtype)
            site.buffers.bundled[bundle.op] = self.blanks[whole]
            site.buffers[ref] = self.blanks[whole][:, bundle.start : bundle.start + bundle.width]
            return
        key = (ref.name, site.layouts.pieces_of(ref))
        if key not in self.blanks:
            self.blanks[key] = self._made(site, tensor, key[1])
        site.buffers[ref] = self.blanks[key]

    def place(self, site: Site) -> None:
        """Buffers of all states."""
        for tensor in site.schedule.tensors.values():
            if tensor.persistent:
                for layer in instances(site.schedule, tensor):
                    self.blank(site, Ref(tensor.name, layer))

    def _made(self, site: Site, tensor: Tensor, pieces: int) -> Any:
        backend, mesh = site.backend, site.schedule.mesh
        elements = tensor.local_elements(mesh)
        codec = tensor.codec
        if codec is None:
            return backend.zeros((elements,), tensor.dtype)
        return blank_pieces(site, codec, pieces, elements // pieces)

    def _spend(self, site: Site, op: Compute) -> None:
        backend, mesh = site.backend, site.schedule.mesh
        if op.matmul is not None:
            batch, m, n, k = matmul_shape(op, mesh)
            refs = (*op.writes, *op.reads)
            dtype = next((t.dtype for t in (site.schedule.tensors[r.name] for r in refs) if t.dtype in _FLOATS), "fp32")
            backend.xp.matmul(self._scratch(site, (batch, m, k), dtype), self._scratch(site, (batch, k, n), dtype))
            return
        moved = traffic_bytes(op, site.schedule.tensors, mesh) // 2  # half is read, half is written
        if moved:
            backend.xp.asarray(self._scratch(site, (moved,), "uint8"), copy=True)

    def _scratch(self, site: Site, shape: tuple[int, ...], dtype: str) -> Array:
        """Memory of that shape, the same for all ops of a lane's kind; it is only ever read."""
        key = (shape, dtype)
        if key not in self.scratch:
            self.scratch[key] = site.backend.zeros(shape, dtype)
        return self.scratch[key]


def blank_pieces(site: Site, codec: Codec, pieces: int, length: int) -> Encoded:
    """Encoded pieces of zeros."""
    backend = site.backend
    if not codec.is_quantised:
        return Encoded(backend.zeros((pieces, length), codec.name), None)
    scales = backend.zeros((pieces, -(-length // codec.block)), "fp32")
    return Encoded(backend.zeros((pieces, codec.payload_bytes(length)), "uint8"), scales)


class ReplayWork(RealWork):
    """The work of a replay: real collectives and codecs, the model's ops by a stand-in."""

    def __init__(self, site: Site, stand: Stand) -> None:
        super().__init__(site, stand.kernels())
        self._stand = stand
        if stand.mode == "wait" and (stand.waits is None or len(stand.waits) != site.program.num_ops):
            got = 0 if stand.waits is None else len(stand.waits)
            raise InputError(f"waits: got {got} ops; allowed: one for each of the schedule's {site.program.num_ops}")
        stand.place(site)

    def run(self, index: int, ready_s: float) -> None:
        super().run(index, ready_s)
        if self._stand.mode == "wait":
            assert self._stand.waits is not None
            wait_until(ready_s + self._stand.waits[index])


def wait_until(deadline_s: float) -> None:
    """Sleep to a moment of the monotonic clock; never awake, because ranks may share cores."""
    left = deadline_s - time.monotonic()
    if left > 0:
        time.sleep(left)


def waits_of(trace: Trace, rank: int, num_ops: int, where: str) -> list[float]:
    """How long each op took on a rank in a trace. Raises InputError where the trace lacks the rank or an op."""
    for members, spans in zip(trace.members, trace.spans, strict=True):
        if rank in members:
            out = [math.nan] * num_ops
            for span in spans:
                if not 0 <= span.op < num_ops:
                    raise InputError(f"{where}: op {span.op}; allowed: the schedule's 0 to {num_ops - 1}")
                out[span.op] = span.end_s - span.start_s
            missing = next((index for index, wait in enumerate(out) if math.isnan(wait)), None)
            if missing is not None:
                raise InputError(f"{where}: rank {rank} has no op {missing}; allowed: a trace of the whole schedule")
            return out
    raise InputError(f"{where}: holds nothing for rank {rank}; allowed: a trace of all ranks (simfrontier export)")
