"""The authors' bandwidths: every entry of both tables, and what a file of them may hold."""

from __future__ import annotations

import pytest

from simfrontier_extras.axonn_model.formulas import VersionName, load_bandwidths
from tests.some import some

# As get_bw(ip, my) of the source has them: (inner, size) -> GB/s.
VERSION_A = {
    "perlmutter": {
        (1, 2): 76, (1, 4): 225, (1, 8): 80, (1, 512): 80,
        (2, 2): 76, (2, 4): 40, (2, 64): 40,
        (4, 2): 20, (4, 4): 20, (8, 2): 20, (64, 16): 20,
    },
    "frontier": {
        (1, 2): 129, (1, 4): 52, (1, 8): 135, (1, 16): 40, (1, 512): 40,
        (2, 2): 50, (2, 4): 72, (2, 8): 20, (2, 64): 20,
        (4, 2): 36, (4, 4): 10, (8, 2): 5, (16, 2): 5, (512, 4): 5,
    },
}  # fmt: skip
VERSION_B = {
    "perlmutter": {
        (1, 2): 76, (1, 4): 225, (1, 8): 59.52, (2, 2): 76, (2, 4): 29.76, (4, 2): 14.88, (64, 2): 14.88,
    },
    "frontier": {
        (1, 2): 129, (1, 4): 52, (1, 8): 135, (1, 16): 109.98, (2, 2): 50, (2, 4): 72, (2, 8): 54.99,
        (4, 2): 36, (4, 4): 27.495, (8, 2): 13.7475, (64, 4): 13.7475,
    },
}  # fmt: skip


@pytest.mark.parametrize(("version", "tables"), [("axonn-a", VERSION_A), ("axonn-b", VERSION_B)])
def test_bandwidths_are_those_of_the_source(
    version: VersionName, tables: dict[str, dict[tuple[int, int], float]]
) -> None:
    for machine, expected in some(tables.items()):
        bandwidths = load_bandwidths(version, machine)
        got = {key: bandwidths.gib_per_s(*key) for key in expected}
        assert got == pytest.approx(expected, rel=1e-12), machine
