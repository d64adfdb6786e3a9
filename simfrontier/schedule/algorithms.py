"""The algorithms of collectives by name, the only list of them: what the `via` of a collective may say.

Each is a file of that name in collectives/algorithms, which says what it moves and how long it takes.
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
"""What `via` says where the choice is the library's."""
VIAS: Final = (LIBRARY, *ALGORITHMS)
