"""The names of all collective algorithms: the values of a collective's `via`.

Each is a file of that name in collectives/algorithms, which has its transfers and its times.
"""

from __future__ import annotations

from typing import Final

RING: Final = "ring"
RING_TWICE: Final = "ring_twice"
DIRECT: Final = "direct"
TREE: Final = "tree"
HALVING: Final = "halving"
TWO_LEVEL: Final = "two_level"
ALGORITHMS: Final = (RING, RING_TWICE, DIRECT, TREE, HALVING, TWO_LEVEL)

LIBRARY: Final = "library"
"""The `via` of a collective whose algorithm the library chooses."""
VIAS: Final = (LIBRARY, *ALGORITHMS)
