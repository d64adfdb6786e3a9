"""A transformer as the model sees it: the linear layers of a block, and what of a grid they must divide into."""

from __future__ import annotations

from dataclasses import dataclass

from simfrontier.base.errors import InputError
from simfrontier.core.workload import GptShape
from simfrontier_extras.axonn_model.grid import Grid
from simfrontier_extras.axonn_model.versions import VersionName


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A linear layer with weights [out, in]: a normal one has its input cut over X and its output over Y, a transposed
    one the other way round. `times`: layers of this shape in a block."""

    num_in: int
    num_out: int
    transposed: bool = False
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """Sizes of a decoder; `gqa` query heads share a key and a value, with `swiglu` two layers lead up to
    `intermediate` features."""

    num_layers: int
    hidden: int
    heads: int
    vocabulary: int
    sequence: int
    intermediate: int
    gqa: int = 1
    swiglu: bool = False

    def layers(self, quirk: bool) -> tuple[Layer, ...]:
        """qkv, attention projection, up, down, of one block. With the `quirk` of both versions' code the layer down,
        which is transposed, has the widths of the layer up: (h, f) where it is (f, h)."""
        h, f = self.hidden, self.intermediate
        down = (h, f) if quirk else (f, h)
        return (
            Layer(num_in=h, num_out=h + 2 * h // self.gqa),
            Layer(num_in=h, num_out=h, transposed=True),
            Layer(num_in=h, num_out=f, times=2 if self.swiglu else 1),
            Layer(num_in=down[0], num_out=down[1], transposed=True),
        )

    def refuse_what_lacks(self, version: VersionName) -> None:
        """Raise InputError for what Version A has no formula for: it is of GPTs, whose layers are 3 h, h, 4 h and 4 h
        wide."""
        if version != "axonn-a":
            return
        wanted = {"swiglu": False, "gqa": 1, "intermediate": 4 * self.hidden}
        for key, allowed in wanted.items():
            got = getattr(self, key)
            if got != allowed:
                shown = [str(value).lower() for value in (got, allowed)]
                raise InputError(
                    f"tune.{key}: got {shown[0]}, allowed: {shown[1]} with axonn-a (only axonn-b has others)"
                )

    def obstacle(self, grid: Grid) -> str:
        """Return why a grid cannot cut this transformer, or "": hidden features are cut over X, heads, feed-forward
        features and vocabulary over Y, the blocks of weights that leaves over Z.

        The authors' search does not look at this; AxoNN's layers refuse such a grid, and so does a plan.
        """
        cuts = (
            ("hidden", self.hidden, "X", grid.x),
            ("heads", self.heads, "Y", grid.y),
            ("intermediate", self.intermediate, "Y", grid.y),
            ("vocabulary", self.vocabulary, "Y", grid.y),
        )
        for name, size, axis, ranks in cuts:
            if size % ranks:
                return f"{name} = {size} does not divide into {axis} = {ranks}"
        for layer in self.layers(quirk=False):
            block = layer.num_in * layer.num_out // (grid.x * grid.y)
            if block % grid.z:
                return f"a block of {layer.num_in} x {layer.num_out} weights does not divide into Z = {grid.z}"
        return ""


def transformer_of(
    shape: GptShape, *, intermediate: int | None = None, gqa: int = 1, swiglu: bool = False
) -> Transformer:
    """A GPT's shape; what is given stands for the shape's own feed-forward features, queries of a key, and gate."""
    return Transformer(
        num_layers=shape.num_layers,
        hidden=shape.hidden,
        heads=shape.heads,
        vocabulary=shape.padded_vocabulary,
        sequence=shape.sequence,
        intermediate=shape.feed_forward if intermediate is None else intermediate,
        gqa=shape.heads // shape.key_heads if gqa == 1 else gqa,
        swiglu=swiglu or shape.gated,
    )
