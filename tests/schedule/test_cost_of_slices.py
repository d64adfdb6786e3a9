"""Bytes of device memory that a slice moves: what it keeps, read and written, however much it is cut from."""

from __future__ import annotations

from simfrontier.schedule import Compute, Mesh, Ref, Tensor
from simfrontier.schedule.cost import traffic_bytes
from simfrontier.schedule.placement import REPLICATE


def test_a_slice_reads_no_more_than_it_keeps() -> None:
    """16 of 1,000 numbers of 4 bytes: 64 bytes read and 64 written; a copy by another kernel reads all 4,000."""
    tensors = {
        name: Tensor(name=name, shape=(size,), dtype="fp32", role="activation", placement=REPLICATE)
        for name, size in (("whole", 1000), ("part", 16))
    }
    mesh = Mesh((("gcd", 2),))
    moved = {
        kind: traffic_bytes(Compute(kind=kind, name="x", reads=(Ref("whole"),), writes=(Ref("part"),)), tensors, mesh)
        for kind in ("slice", "add")
    }
    assert moved == {"slice": 2 * 64, "add": 4000 + 64}
