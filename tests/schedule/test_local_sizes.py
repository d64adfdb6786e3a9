"""The part of an op's iteration space that a rank works on."""

from simfrontier.schedule.ir import Compute
from simfrontier.schedule.mesh import Mesh

MESH = Mesh((("node", 2), ("package", 3), ("gcd", 5)))


def test_labels_are_divided_by_the_axes_that_split_them() -> None:
    """60 rows over node and gcd are 6; 9 columns over package are 3; 7 stay. A label that the op has not is split in
    vain. Operations are divided by all of that: 2 * 5 * 3 = 30."""
    op = Compute(
        kind="matmul",
        name="product",
        iteration=(("m", 60), ("n", 9), ("k", 7)),
        split=(("node", "m"), ("gcd", "m"), ("package", "n"), ("node", "b")),
        flops=3000.0,
    )
    assert op.local_sizes(MESH) == {"m": 6, "n": 3, "k": 7}
    assert op.local_flops(MESH) == 100.0
