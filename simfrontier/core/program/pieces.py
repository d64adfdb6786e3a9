"""Division of ops into pieces: a matrix product, and the collective that delivers its operand or takes its result, are
divided along one dimension, so that the communication of one piece overlaps the computation of another.

The collective's axes divide the dimension into blocks, and each block is divided into equal parts; piece i consists of
part i of every block. So piece i of a gather delivers what piece i of the matrix product needs, and piece i of the
matrix product computes what piece i of a reduce-scatter takes.

Pieces that turn are whole blocks instead, which go around a ring: piece 0 is the rank's own block, copied by a slice,
and call i of a gather sends a block to the next rank, which has block i then. Fused attention merges what its pieces
compute, and call i of a scatter sends the sum for block i to the next rank, which adds its own part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from simfrontier.base.errors import InputError
from simfrontier.core.program.finding import Findings, ranks_of, title_of
from simfrontier.core.program.ir import Call, Collective, Compute, Op, Piece, Role, Schedule, Tensor
from simfrontier.core.program.kinds import kind_of
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.program.names import SHIFT
from simfrontier.core.program.op_kind import ModelKind
from simfrontier.core.program.placement import block_shape

CUT_KINDS: Final = ("all_gather", "reduce_scatter")
CutOp = Compute | Collective
Cut = tuple[int, str, tuple[str, ...], bool]  # parts, label, axes, turns


def in_pieces(op: CutOp, parts: int, label: str, axes: tuple[str, ...], turns: bool = False) -> tuple[CutOp, ...]:
    """Return the pieces into which an op is divided, in order; a collective that turns has no call for the own
    block."""
    first = int(turns and isinstance(op, Collective))
    return tuple(_piece(op, Piece(number, parts, label, axes, turns)) for number in range(first, parts))


def whole(op: CutOp) -> CutOp:
    """Return the whole op to which a piece belongs."""
    if op.piece is None or isinstance(op, Collective):
        return replace(op, piece=None)
    parts, label = op.piece.parts, op.piece.label
    iteration = tuple((each, size * parts if each == label else size) for each, size in op.iteration)
    return replace(op, piece=None, iteration=iteration, flops=op.flops * parts)


def _piece(op: CutOp, piece: Piece) -> CutOp:
    if isinstance(op, Collective):
        return replace(op, piece=piece)
    iteration = tuple((each, size // piece.parts if each == piece.label else size) for each, size in op.iteration)
    return replace(op, piece=piece, iteration=iteration, flops=op.flops // piece.parts)


def cut_label(op: Collective, tensors: Mapping[str, Tensor]) -> str | None:
    """Return the label of the dimension along which a collective gathers or scatters all of its tensors; None if they
    differ in this or the collective is of another kind."""
    labels = set[str | None]()
    for src, dst in zip(op.src, op.dst, strict=True):
        small, large = (tensors[ref.name] for ref in ((src, dst) if op.kind == "all_gather" else (dst, src)))
        along = {dim for axis, dim in small.placement.shards if axis in op.axes}
        labels |= {large.dims[dim] if large.dims else None for dim in along} if along else {None}
    return labels.pop() if len(labels) == 1 and op.kind in CUT_KINDS else None


def joined(schedule: Schedule, findings: Findings) -> Schedule | None:
    """Return a schedule in which whole ops replace their pieces; the schedule itself if it has no pieces. If some
    pieces do not form a whole op, report this in `findings` and return None."""
    if not any(op.piece is not None for op in schedule.ops):
        return schedule
    blocks: dict[int, tuple[Op, ...]] = {}
    cuts: dict[str, Cut] = {}  # how a tensor is cut
    wholes: dict[int, Op] = {}
    for role in schedule.roles:
        for call in role.first_calls():
            if call.block not in blocks:
                blocks[call.block] = _joined(schedule, role, call, findings, cuts, wholes)
    if findings:
        return None
    roles = tuple(
        replace(role, calls=tuple(Call(c.label, c.layer, c.micro, blocks[c.block], -1) for c in role.calls))
        for role in schedule.roles
    )
    return replace(schedule, roles=roles)


def _joined(
    schedule: Schedule, role: Role, call: Call, findings: Findings, cuts: dict[str, Cut], wholes: dict[int, Op]
) -> tuple[Op, ...]:
    ops, out, index = call.ops, list[Op](), 0
    copied: Op | None = None  # the latest copy of an own block
    while index < len(ops):
        op = ops[index]
        if op.piece is None or not isinstance(op, Compute | Collective):
            out.append(op)
            index += 1
            continue
        if _is_own_block(op):
            index += 1
            if index < len(ops) and ops[index].kind == "hook" and {*op.writes} <= {*ops[index].reads}:
                index += 1  # the steps wait for the copy
            copied = op
            if not (index < len(ops) and _turns_with(ops[index], op)):
                ranks = ranks_of(op, role, schedule.roles)
                findings.add("facts", title_of(op, call), ranks, "the steps of a gather that turns after it", "none")
            continue
        piece, one = op.piece, whole(op)
        if isinstance(op, Collective) and op.turns and op.kind == "all_gather" and not _turns_with(op, copied):
            ranks = ranks_of(op, role, schedule.roles)
            findings.add("facts", title_of(op, call), ranks, "a slice of the own block before it", "none")
        pieces = in_pieces(one, *piece[1:])
        held = ops[index : index + len(pieces)]
        if isinstance(op, Collective):
            # the first may be on the lane of the product: the communicator orders them
            held = tuple(replace(each, lane=op.lane) for each in held)
        lanes = "" if isinstance(op, Collective) else ", on one lane"
        wanted, got = f"pieces 0..{piece.parts - 1} of one op, in order{lanes}", ", ".join(_text(each) for each in held)
        known = all(ref.name in schedule.tensors for ref in (*one.reads, *one.writes))  # else reported later
        faults = _faults(one, piece, schedule, cuts) if known else ()
        for expected, found in faults if held == pieces else ((wanted, got),):
            ranks = ranks_of(op, role, schedule.roles)
            findings.add("facts", title_of(op, call), ranks, expected, found)
        out.append(wholes.setdefault(op.number, one))
        index += len(pieces)
    return tuple(out)


def _is_own_block(op: Op) -> bool:
    """Return whether an op copies a rank's own block to the first piece of a gather that turns."""
    return op.kind == "slice" and op.piece is not None and op.piece.turns and op.piece.number == 0


def _turns_with(call: Op, slice_: Op | None) -> bool:
    """Return whether a call is the first step of a gather whose own block an op copies."""
    if slice_ is None or not isinstance(call, Collective) or call.kind != "all_gather":
        return False
    own = None if call.piece is None else call.piece._replace(number=0)
    return (call.src, call.dst) == (slice_.reads, slice_.writes) and own == slice_.piece


def _text(op: Op) -> str:
    return (
        "a whole op" if op.piece is None else f"piece {op.piece.number} of {op.piece.parts} of {op.name} on {op.lane}"
    )


def _faults(op: CutOp, piece: Piece, schedule: Schedule, cuts: dict[str, Cut]) -> Iterator[tuple[str, str]]:
    """Yield the faults in how an op is divided into pieces, as (expected, found)."""
    mesh, tensors, label = schedule.mesh, schedule.tensors, piece.label
    unknown = [axis for axis in piece.axes if axis not in mesh.names]
    if unknown or not piece.axes:
        yield "pieces over axes of the mesh", ", ".join(unknown) or "none"
        return
    operands = [tensors[ref.name] for ref in (*op.reads, *op.writes)]
    if isinstance(op, Collective):
        if cut_label(op, tensors) != label or piece.axes != op.axes or op.codec.is_opaque or op.token is not None:
            yield f"a plain gather or scatter along {label} over {'+'.join(piece.axes)}", op.kind
            return
        if piece.turns != (op.via == SHIFT):
            yield f"pieces that turn by {SHIFT}, and others by other algorithms", op.via
        size = _size_on_rank(tensors[(op.dst if op.kind == "all_gather" else op.src)[0].name], label, mesh)
    else:
        rows, kind = () if op.matmul is None else op.matmul[2 if piece.turns else 1], kind_of(op)
        if (
            not (isinstance(kind, ModelKind) and (kind.merges_pieces if piece.turns else kind.in_pieces))
            or label not in rows
            or any(axis in piece.axes for axis, cut in op.split if cut == label)
        ):
            yield f"a product of whole rows with the label {label}", f"rows {', '.join(rows) or 'of none'}"
            return
        size = op.local_sizes(mesh)[label]
    missing = [tensor.name for tensor in operands if tensor.role == "activation" and label not in tensor.dims]
    if missing and not piece.turns:
        yield f"activations with the label {label}", ", ".join(missing)
    if piece.turns and piece.parts != mesh.size(piece.axes):
        yield f"{mesh.size(piece.axes)} pieces, a block of each rank over {'+'.join(piece.axes)}", str(piece.parts)
    blocks = 1 if piece.turns else mesh.size(piece.axes)
    if size % (blocks * piece.parts):
        yield f"a size of {label} that divides by {blocks} × {piece.parts}", str(size)
    cut = (piece.parts, piece.label, piece.axes, piece.turns)
    for tensor in operands:
        if label in tensor.dims and cuts.setdefault(tensor.name, cut) != cut:
            yield f"{tensor.name} in {_way(cuts[tensor.name])}, as elsewhere", _way(cut)


def _way(cut: Cut) -> str:
    parts, label, axes, turns = cut
    return f"{parts} {'turning ' * turns}pieces of {label} over {'+'.join(axes)}"


def _size_on_rank(tensor: Tensor, label: str, mesh: Mesh) -> int:
    """Return the size of a tensor's dimension on one rank; 0 if the tensor lacks this dimension or its placement does
    not fit the mesh."""
    if label not in tensor.dims:
        return 0
    try:
        return block_shape(tensor.shape, tensor.placement, mesh, tensor.name)[tensor.dims.index(label)]
    except InputError:
        return 0
