"""What an emulated run adds to a cross-check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simfrontier.trace import AddedCheckReader

if TYPE_CHECKING:
    from simfrontier.trace import AddedCheck, CrossCheck, TracePaths


def _read(check: CrossCheck, paths: TracePaths) -> AddedCheck:
    from simfrontier_extras.emulation.crosscheck.check import read_emulated

    return read_emulated(check, paths)


ADDS = (AddedCheckReader(read=_read),)
