"""Mugs pre-training (arXiv 2203.14415) as a graph of ops: the backbones of student and teacher, and their joint parts.

Three streams run through the layers: `teacher` and `global` (the large crops) and `local` (the small crops), the last
two with the student's weights. A label b counts the rows of its stream: crops, image by image. Labels: n patch, i
number of a patch, s token, h hidden feature. Heads and losses are in `heads`.

The order of the forward is by layers, not teacher before student: nothing of either is communicated.
"""

from __future__ import annotations

from simfrontier.core.workload import (
    Attention,
    GptShape,
    GraphBuilder,
    Phase,
    Precision,
    Softmax,
    State,
    Stream,
    Value,
    Weight,
    Workload,
    find_precision,
    gpt,
    without_cuts,
)
from simfrontier_extras.mugs.architecture import MugsArchitecture
from simfrontier_extras.mugs.heads import GLOBAL, LOCAL, NOT_FOLLOWED, TEACHER, Heads


def mugs(
    shape: MugsArchitecture,
    batch: int,
    precision: str = "fp32",
    attention: Attention = "plain",
    softmax: Softmax = "fused",
) -> Workload:
    """The graph of one step on `batch` images over all ranks together; `attention` as of a GPT, `softmax` of scores in
    memory. Raises InputError."""
    return _Mugs(shape, batch, find_precision(precision), attention, softmax).workload()


class _Mugs:
    """The model's phases, stream by stream."""

    def __init__(
        self, shape: MugsArchitecture, batch: int, precision: Precision, attention: Attention, softmax: Softmax
    ) -> None:
        self.shape, self.batch, self.precision = shape, batch, precision
        self.attention, self.softmax = attention, softmax
        self.values: dict[str, Value] = {}
        self.weights: dict[str, Weight] = {}

    def workload(self) -> Workload:
        shape = self.shape
        self._declare_weights()
        phases = [
            self._backbone(TEACHER, shape.global_crops, shape.image),
            self._backbone(GLOBAL, shape.global_crops, shape.image),
            self._backbone(LOCAL, shape.local_crops, shape.small),
        ]
        embedding, layer, ends = (tuple(parts) for parts in zip(*phases, strict=True))
        heads = Heads(shape, self.batch, self.precision, self._relation_block, self.weights)
        head = Phase(
            forward=(*(op for phase in ends for op in phase.forward), *heads.forward()),
            backward=(*heads.backward(), *(op for phase in ends for op in phase.backward)),
        )
        both = (*embedding, *layer, head)
        used = {
            name for phase in both for op in (*phase.forward, *phase.backward) for name, _ in (*op.reads, *op.writes)
        }
        values = {**self.values, **heads.declarations.values}
        return Workload(
            name=shape.name,
            batch=self.batch,
            sequence=1,
            checkpointing="none",
            precision=self.precision,
            embedding=_joined(embedding),
            layers=(_joined(layer),) * shape.num_layers,
            head=head,
            values={name: value for name, value in values.items() if name in used},
            weights=self.weights,
            traits={
                "attention": self.attention,
                "causal": 0,
                "heads": shape.heads,
                "clip": "each",
                "global_crops": shape.global_crops,
                "local_crops": shape.local_crops,
                "neighbours": shape.neighbours,
                **({"softmax": self.softmax} if self.softmax != "fused" else {}),
            },
            states={**self._followers(), **heads.states()},
        )

    # ── weights, and the teacher's, which follow them ──

    def _declare_weights(self) -> None:
        """The backbone's; heads declare their own."""
        builder = self._builder(1, self.shape.image)
        builder.linear_weights("patch", "hi", per_layer=False)
        builder.weight("positions", "cls", "h", per_layer=False)
        builder.weight("positions", "table", "sh", per_layer=False)
        block = self._block(1, 1)
        self.weights.update({name: weight for name, weight in block.weights.items() if weight.module != "embedding"})

    def _followers(self) -> dict[str, State]:
        """The teacher's weights: the student's, but for the predictors."""
        return {
            f"{TEACHER}/{name}": State(
                module=weight.module,
                parameter=weight.parameter,
                streams=(TEACHER, *weight.streams),
                dims=weight.dims,
                shape=weight.shape,
                per_layer=weight.per_layer,
                follows=name,
            )
            for name, weight in self.weights.items()
            if weight.module not in NOT_FOLLOWED
        }

    # ── one stream ──

    def _backbone(self, name: str, crops: int, pixels: int) -> tuple[Phase, Phase, Phase]:
        """Return the phases of one stream's backbone: embedding, one layer, and final norm and pooling, which turn
        tokens into features."""
        stream = Stream(name, follower=TEACHER if name == TEACHER else "")
        builder = self._builder(crops, pixels)
        block = self._block(crops, self.shape.num_patches(pixels) + 1)
        values = dict(block.values)
        norm, back = (
            without_cuts((op for op in ops if op.named.module == "final_norm"), values)
            for ops in (block.head.forward, block.head.backward)
        )
        kind = block.layers[0]
        layer = Phase(forward=without_cuts(kind.forward, values), backward=without_cuts(kind.backward, values))
        pool = self._pool(builder)
        phases = (
            self._embedding(builder),
            layer,
            Phase(forward=(*norm, *pool.forward), backward=(*pool.backward, *back)),
        )
        self.values.update(stream.values((*builder.values.values(), *block.values.values())))
        embedded, layered, ended = (
            Phase(forward=stream.ops(phase.forward), backward=() if stream.follower else stream.ops(phase.backward))
            for phase in phases
        )
        return embedded, layered, ended

    def _builder(self, crops: int, pixels: int) -> GraphBuilder:
        shape = self.shape
        sizes = {
            "b": self.batch * crops,
            "n": shape.num_patches(pixels),
            "s": shape.num_patches(pixels) + 1,
            "i": shape.patch_features,
            "h": shape.hidden,
        }
        return GraphBuilder(self.precision, sizes, rows=("b", "n"), weights=self.weights)

    def _block(self, crops: int, tokens: int) -> Workload:
        """A transformer that has the layers of the backbone: those of a GPT, one part after the other."""
        shape = self.shape
        like = GptShape(
            name=shape.name,
            num_layers=shape.num_layers,
            hidden=shape.hidden,
            heads=shape.heads,
            vocabulary=1,
            sequence=tokens,
            source=shape.source,
            residual="sequential",
            tied=True,
        )
        precision, attention = self.precision.name, self.attention
        return gpt(like, self.batch * crops, "none", precision=precision, attention=attention, softmax=self.softmax)

    def _relation_block(self, crops: int) -> Workload:
        """Return the relation block: a transformer as of `_block`, on a query and its neighbours, for `crops` crops of
        every image."""
        return self._block(crops, self.shape.neighbours + 1)

    def _embedding(self, builder: GraphBuilder) -> Phase:
        """Turn patches into tokens, put the class token before them, and add the row of its position to each (small
        crops: the rows of as many first positions; the original interpolates)."""
        builder.declare("bni", "pixels", per_layer=False, persistent=True)
        builder.declare("bnh", "patch.out", "d.patch", per_layer=False)
        weights = ("positions.cls", "positions.table")
        what = "positions", "positions", "bsh"
        added = builder.pointwise(*what, "patch.out", "x", weights=weights)
        parted = builder.pointwise(*what, "d.x", "d.patch", part="backward", gradients=weights)
        return Phase(
            forward=(builder.linear("patch", "hi", "pixels", "patch.out"), added),
            backward=(parted, builder.weight_gradient("patch", "hi", "d.patch", "pixels")),
        )

    def _pool(self, builder: GraphBuilder) -> Phase:
        """The class token, and the mean of all tokens, of the normed stream."""
        builder.declare("bh", "cls", "mean", "d.cls", "d.mean", per_layer=False)
        forward = builder.pointwise("pool", "pool", "bsh", "final_norm.out", "cls mean")
        backward = builder.pointwise("pool", "pool", "bsh", "d.cls d.mean", "d.final_norm", part="backward")
        return Phase(forward=(forward,), backward=(backward,))


def _joined(phases: tuple[Phase, ...]) -> Phase:
    """Return the phases of streams one after the other; backward in the other order."""
    return Phase(
        forward=tuple(op for phase in phases for op in phase.forward),
        backward=tuple(op for phase in reversed(phases) for op in phase.backward),
    )
