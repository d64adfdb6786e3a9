"""The algorithms that are timed: the kernels of the cost model whose rows do not stay on the chip."""

from typing import Final

from simfrontier.schedule import KERNELS

IN_MEMORY: Final = tuple(name for name in KERNELS if name != "fused")
