"""Heads of Mugs on the features of its crops: three heads, three losses, and the queues that they read and fill.

Streams: `student` has all crops of the student, `teacher` those of the teacher; a row is a crop, image by image. The
instance head takes class tokens; the local-group head (`group`) what the relation block makes of a mean token and its
nearest rows in a memory; the group head (`cluster`) class tokens again. Labels: p, q projector, e bottleneck, u
predictor, k entry of a queue, j one more (the positive first), w prototype. A row of the scores is a pair of a
student's and a teacher's crop.

Each loss gives the gradient of its scores at once, and that of its queries is formed before the queue moves on, so that
no copy of a queue is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from simfrontier.core.workload import Precision, State, Stream, Weight, Workload, WorkOp, in_stream
from simfrontier_extras.mugs.architecture import MugsArchitecture
from simfrontier_extras.mugs.head_stream import MATRICES, PREDICTOR, RELATION, HeadDeclarations, HeadStream, Ops

STUDENT, TEACHER, GLOBAL, LOCAL = "student", "teacher", "global", "local"
HEADS = ("instance", "group", "cluster")
NOT_FOLLOWED = {f"{head}.{part}" for head in ("instance", "group") for part, _ in PREDICTOR}  # the teacher lacks them


class Heads:
    """Declare the weights and values of the heads, and make their ops.

    `block`: returns a transformer whose layer is the relation block, for a number of rows per image.
    """

    def __init__(
        self,
        shape: MugsArchitecture,
        batch: int,
        precision: Precision,
        block: Callable[[int], Workload],
        weights: dict[str, Weight],
    ) -> None:
        self.shape = shape
        self.declarations = HeadDeclarations(shape, batch, precision, block, weights)
        self.builder, self.declare = self.declarations.builder, self.declarations.declare
        self._declare_weights(block(1).weights)
        self.streams = {
            STUDENT: HeadStream(self.declarations, Stream(STUDENT), shape.crops),
            TEACHER: HeadStream(self.declarations, Stream(TEACHER, follower=TEACHER), shape.global_crops),
        }

    # ── states ──

    def states(self) -> dict[str, State]:
        """Return queues of negatives, memories, the centre, and the lengths of prototypes that are not trained. Only
        one of a memory's three tensors is searched."""
        shape = self.shape
        queue, rows, prototypes = (shape.bottleneck, shape.queue), (shape.queue, shape.hidden), (shape.prototypes,)
        kept = [
            *(State(module=head, parameter="queue", dims=("e", "k"), shape=queue) for head in ("instance", "group")),
            *(
                State(module="memory", parameter=parameter, streams=(stream,), dims=tuple(dims), shape=size)
                for stream in (STUDENT, TEACHER)
                for parameter, dims, size in (("", "kh", rows), ("others", "okh", (2, *rows)))
            ),
            State(module="cluster", parameter="centre", dims=("w",), shape=prototypes),
        ]
        if not shape.trains_norms:
            kept += [
                State(module="last", parameter="norm", streams=streams, dims=("w",), shape=prototypes, fixed=True)
                for streams in ((), (TEACHER,))
            ]
        return {state.name: state for state in kept}

    def _declare_weights(self, block: Mapping[str, Weight]) -> None:
        builder = self.builder(1)
        for weight in block.values():
            if weight.per_layer:
                own = replace(weight, streams=(RELATION,), per_layer=False)
                builder.weights[own.name] = own
        for head in HEADS:
            for part, nk in (*MATRICES, *(PREDICTOR if head != "cluster" else ())):
                builder.linear_weights(f"{head}.{part}", nk, per_layer=False, has_bias=head == "cluster")
        builder.weight("last", "weight", "we", per_layer=False)
        if self.shape.trains_norms:
            builder.weight("last", "norm", "w", per_layer=False)

    # ── forward: features, losses, and the queues ──

    def forward(self) -> Ops:
        """Return the forward ops: features of both streams, then each loss with its queue, then the update of the
        memories."""
        student, teacher = self.streams[STUDENT], self.streams[TEACHER]
        return (
            self._join(),
            *teacher.features(),
            *student.features(),
            *self._contrast("instance"),
            *self._contrast("group"),
            *self._cluster(),
            *self._remember(),
        )

    def _join(self) -> WorkOp:
        """Return the op that joins the features of all crops of the student, image by image."""
        self.declare("bh", self.shape.crops, "cls", "mean", "d.cls", "d.mean", streams=(STUDENT,))
        parts = " ".join(f"{stream}/{name}" for stream in (GLOBAL, LOCAL) for name in ("cls", "mean"))
        builder = self.builder(self.shape.crops)
        return in_stream(STUDENT, builder.pointwise("join", "join", "bh", parts, f"{STUDENT}/cls {STUDENT}/mean"))

    def _contrast(self, head: str) -> Ops:
        """Return the ops of a contrastive loss: scores of every pair with its key and with the queue, the loss, the
        gradient of the queries; then the keys of all ranks enter the queue."""
        shape, builder, queue = self.shape, self.builder(self.shape.pairs), (f"{head}.queue",)
        scores, gradient = f"{head}.scores", f"d.{head}.scores"
        query, of_query = f"{STUDENT}/{head}.query", f"{STUDENT}/d.{head}.query"
        keys = " ".join(f"{TEACHER}/{head}.key.{view}" for view in range(shape.global_crops))
        self.declare("bj", shape.pairs, scores, gradient)
        self.declare("be", shape.crops, f"d.{head}.query", streams=(STUDENT,))
        pairs = partial(builder.matmul, scores, kind="pairs", states=queue)
        return (
            pairs("|b|k|e", f"{query} {keys}", scores),
            builder.pointwise(f"{head}.loss", "contrast", "bj", scores, gradient),
            pairs("|b|e|k", f"{gradient} {keys}", of_query, part="dquery"),
            self.builder(1).pointwise(f"{head}.enqueue", "enqueue", "e", keys, states=queue, written_states=queue),
        )

    def _cluster(self) -> Ops:
        """Return the ops of every pair's cross-entropy over prototypes, and of the mean of the teacher's scores over
        all ranks, which updates the centre."""
        self.declare("w", 1, "cluster.sum")
        student, teacher, centre = f"{STUDENT}/cluster.scores", f"{TEACHER}/cluster.scores", ("cluster.centre",)
        of_student, of_teacher = self.builder(self.shape.crops), self.builder(self.shape.global_crops)
        return (
            of_student.pointwise(
                "cluster.loss", "cluster", "bw", f"{student} {teacher}", f"{STUDENT}/d.cluster.scores", states=centre
            ),
            of_teacher.pointwise("cluster.sum", "centre_sum", "bw", teacher, "cluster.sum"),
            of_teacher.pointwise("cluster.centre", "centre", "w", "cluster.sum", states=centre, written_states=centre),
        )

    def _remember(self) -> Ops:
        """Return the ops that enter a row of each image into the memories; the student's row only if the image's flag
        is set."""
        self.declare("b", 1, "flags", dtype="uint8", persistent=True)
        out: list[WorkOp] = []
        builder = self.builder(1)
        for stream, source, flags in ((STUDENT, GLOBAL, "flags"), (TEACHER, TEACHER, "")):
            row, memory = f"{stream}/row", (f"{stream}/memory", f"{stream}/memory.others")
            self.declare("bh", 1, "row", streams=(stream,))
            pick = builder.pointwise("pick", "pick", "bh", f"{source}/mean", row)
            enter = builder.pointwise("enqueue", "enqueue", "h", f"{row} {flags}", states=memory, written_states=memory)
            out += [in_stream(stream, op) for op in (pick, enter)]
        return tuple(out)

    # ── backward ──

    def backward(self) -> Ops:
        """Return the student's backward ops: the heads in reverse order, then the split of the joined features."""
        parts = " ".join(f"{stream}/d.{name}" for stream in (GLOBAL, LOCAL) for name in ("cls", "mean"))
        reads, builder = f"{STUDENT}/d.cls {STUDENT}/d.mean", self.builder(self.shape.crops)
        parted = builder.pointwise("join", "join", "bh", reads, parts, part="backward")
        return (*self.streams[STUDENT].backward(), in_stream(STUDENT, parted))
