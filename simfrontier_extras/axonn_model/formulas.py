"""The formulas of AxoNN's analytical model: bytes of every dimension of a grid over what its groups reach.

Version A: axonn-ai/Megatron-AxoNN branch gordon-bell-perlmutter, examples/comm_model.py. Version B:
axonn-ai/sc2025-pccl-reproducer branch experimental, data/comm_model.py. Both count communication alone: computing,
overlap and memory are outside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from simfrontier.base.errors import InputError
from simfrontier_extras.axonn_model.bandwidth import Bandwidths
from simfrontier_extras.axonn_model.grid import Grid
from simfrontier_extras.axonn_model.transformer import Layer, Transformer

GIB = 1024.0**3
ELEMENT_BYTES = 2  # BF16


@dataclass(frozen=True, slots=True, kw_only=True)
class CommTimes:
    """Predicted seconds of communication in a step, by the dimension of the grid whose groups communicate."""

    data_s: float
    z_s: float
    y_s: float
    x_s: float

    @property
    def total_s(self) -> float:
        return self.data_s + self.z_s + self.y_s + self.x_s


@dataclass(frozen=True, slots=True, kw_only=True)
class _Term:
    """Data (GiB) that groups along one dimension move in one layer of a step; `inner` ranks stand inside a group."""

    dimension: str
    size: int
    inner: int
    gib: float


def comm_times(
    bandwidths: Bandwidths,
    transformer: Transformer,
    grid: Grid,
    batch: int,
    *,
    quirk: bool = True,
    accumulation: int = 1,
) -> CommTimes:
    """Seconds of communication in a step of `batch` sequences over all devices, in all layers, by the version that
    the bandwidths are of.

    `quirk`: with the widths of the layer down as the authors' code has them (see Transformer.layers). `accumulation`:
    micro-batches of a step, each of which gathers and scatters the weights; Version A alone has it. Both files divide
    bytes by 1024³ and take the tabulated GB/s as they are. Raises InputError for what a version has no formula for.
    """
    transformer.refuse_what_lacks(bandwidths.version)
    if accumulation != 1 and bandwidths.version != "axonn-a":
        raise InputError(f"tune.accumulation: got {accumulation}, allowed: 1 with axonn-b (only axonn-a has others)")
    sums = dict.fromkeys(("data", "z", "y", "x"), 0.0)
    for layer in transformer.layers(quirk):
        for term in _terms(bandwidths.version == "axonn-a", layer, grid, batch * transformer.sequence, accumulation):
            sums[term.dimension] += layer.times * _seconds(term, bandwidths)
    return CommTimes(**{f"{name}_s": transformer.num_layers * total for name, total in sums.items()})


def _seconds(term: _Term, bandwidths: Bandwidths) -> float:
    """a p + V / bw; nothing over one rank."""
    if term.size == 1:
        return 0.0
    rate = bandwidths.gib_per_s(term.inner, term.size)
    return bandwidths.table.latency_s_per_rank * term.size + term.gib / rate


def _terms(is_a: bool, layer: Layer, grid: Grid, tokens: int, accumulation: int) -> Iterator[_Term]:
    """The four terms of a layer. With p ranks along the layer's input and q along its output (X and Y, exchanged in a
    transposed layer), r = tokens / (data z) rows, and f = 4 in Version A, where the forward runs twice, 2 in B:

        data:    4 (data-1)/data  in out / (x y z)     all-reduce of gradients of 4 bytes
        z:       3 (z-1)/z        in out / (x y)       two all-gathers and a reduce-scatter of the weights
        output:  2 (q-1)/q        r in / p             all-reduce of the input's gradient over Y (transposed: X)
        input:   f (p-1)/p        r out / q            all-reduce of the output over X (transposed: Y)

    times 2 bytes. Dimensions are nested X, Y, Z, data, the innermost first; but Version B calls one function for all
    layers, with X and Y exchanged for a transposed one, and so exchanges their nesting, too.
    """
    x, y, z, data = grid.sizes
    p, q = (y, x) if layer.transposed else (x, y)
    along_p, along_q = ("y", "x") if layer.transposed else ("x", "y")
    inside = {"x": y, "y": 1} if layer.transposed and not is_a else {"x": 1, "y": x}
    rows = tokens / (data * z)
    weights = layer.num_in * layer.num_out
    parts = (
        ("data", data, x * y * z, 4 * (data - 1) / data * weights / (x * y * z)),
        ("z", z, x * y, 3 * (z - 1) / z * weights / (x * y) * accumulation),
        (along_q, q, inside[along_q], 2 * (q - 1) / q * rows * layer.num_in / p),
        (along_p, p, inside[along_p], (4 if is_a else 2) * (p - 1) / p * rows * layer.num_out / q),
    )
    for dimension, size, inner, elements in parts:
        yield _Term(dimension=dimension, size=size, inner=inner, gib=elements * ELEMENT_BYTES / GIB)
