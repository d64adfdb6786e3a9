"""Messages of a collective, counted by hand: payload, scales, padding, and the share that a rank sends."""

from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from simfrontier.core.codecs import parse_codec
from simfrontier.core.collectives import (
    Message,
    message_bytes,
    messages_of,
    padding_of,
    sent_share,
    whole_side,
    wire_of,
)
from simfrontier.core.program.ir import Collective, CollectiveKind, Ref, Tensor
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.program.placement import REPLICATE, Placement, flat, partial

MESH = Mesh((("node", 3), ("package", 2), ("gcd", 2)))
ALL = ("node", "package", "gcd")


def tensor(name: str, elements: int, placement: Placement, **more: object) -> Tensor:
    form: dict[str, object] = {"dtype": "fp16", "role": "gradient", "nesting": ALL, **more}
    return Tensor(name=name, shape=(elements,), placement=placement, **form)  # type: ignore[arg-type]


def table(*tensors: Tensor) -> dict[str, Tensor]:
    return {each.name: each for each in tensors}


def call(kind: CollectiveKind, axes: tuple[str, ...], src: str, dst: str, codec: str) -> Collective:
    return Collective(
        kind=kind,
        name="gradient",
        axes=axes,
        src=tuple(Ref(name) for name in src.split()),
        dst=tuple(Ref(name) for name in dst.split()),
        codec=parse_codec(codec),
    )


def sizes(messages: tuple[Message, ...]) -> dict[str, int]:
    return {message.what: message.num_bytes for message in messages}


def overheads_of(op: Collective, tensors: Mapping[str, Tensor], mesh: Mesh) -> dict[str, Fraction]:
    """The message's bytes by what they are."""
    whole = [tensors[ref.name] for ref in whole_side(op)]
    parts = [(*wire_of(op, tensor, mesh), padding_of(op, tensor, mesh)) for tensor in whole]
    data, scales, padding = (sum(column, Fraction(0)) for column in zip(*parts, strict=True))
    return {"data": data - padding, "scales": scales, "padding": padding}


def test_all_gather_counts_what_a_rank_ends_with() -> None:
    known = table(tensor("a", 120, flat(ALL)), tensor("a.full", 120, REPLICATE))
    op = call("all_gather", ALL, "a", "a.full", "fp16")
    assert sizes(messages_of(op, known, MESH)) == {"data": 240}
    assert overheads_of(op, known, MESH) == {"data": 240, "scales": 0, "padding": 0}


def test_reductions_count_what_a_rank_begins_with() -> None:
    known = table(tensor("g", 120, partial(ALL)), tensor("g.mine", 120, flat(ALL)), tensor("g.sum", 120, REPLICATE))
    scattered = call("reduce_scatter", ALL, "g", "g.mine", "fp16")
    reduced = call("all_reduce", ALL, "g", "g.sum", "fp32")
    assert sizes(messages_of(scattered, known, MESH)) == {"data": 240}
    assert sizes(messages_of(reduced, known, MESH)) == {"data": 480}


def test_a_second_hop_moves_what_the_first_left() -> None:
    """After a reduce-scatter over the node's 4 ranks a rank holds 30 of 120 elements: 15 bytes in INT4, 3 pieces."""
    before = partial(("node",), ("package", "gcd"))
    known = table(tensor("g", 120, before), tensor("g.mine", 120, flat(ALL)))
    op = call("reduce_scatter", ("node",), "g", "g.mine", "int4:8")
    # a piece: 10 elements, 5 bytes, 2 blocks of 8; 3 pieces
    assert sizes(messages_of(op, known, MESH)) == {"data": 15, "scales": 24}


def test_every_piece_is_encoded_by_itself() -> None:
    """120 elements in 12 pieces of 10: in blocks of 8 that is 2 scales each, 24 in all; in one run it would be 15."""
    known = table(tensor("a", 120, flat(ALL)), tensor("a.full", 120, REPLICATE))
    op = call("all_gather", ALL, "a", "a.full", "int8:8")
    assert sizes(messages_of(op, known, MESH)) == {"data": 120, "scales": 4 * 24}


def test_exchange_of_shards_moves_the_block() -> None:
    cut = Tensor(
        name="s", shape=(8, 6), dtype="fp16", role="activation", placement=Placement((("gcd", 0),)), dims=("s", "h")
    )
    other = Tensor(
        name="h", shape=(8, 6), dtype="fp16", role="activation", placement=Placement((("gcd", 1),)), dims=("s", "h")
    )
    assert sizes(messages_of(call("all_to_all", ("gcd",), "s", "h", "fp16"), table(cut, other), MESH)) == {"data": 48}


def test_share_that_a_rank_sends() -> None:
    gather = call("all_gather", ("package", "gcd"), "a", "b", "fp16")
    scatter = call("reduce_scatter", ALL, "a", "b", "fp16")
    reduce = call("all_reduce", ALL, "a", "b", "fp16")
    assert sent_share(gather, "ring", MESH) == Fraction(3, 4)
    assert sent_share(scatter, "ring", MESH) == sent_share(scatter, "direct", MESH) == Fraction(11, 12)
    assert sent_share(reduce, "ring", MESH) == Fraction(22, 12)
    assert sent_share(reduce, "tree", MESH) == 1


@given(
    elements=st.integers(1, 500),
    codec=st.sampled_from(("fp16", "fp32", "int8:16", "int4:16", "int4:6144")),
    axes=st.sampled_from((ALL, ("node",), ("package", "gcd"), ("gcd",))),
)
@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter"])
def test_parts_sum_to_the_messages(kind: CollectiveKind, elements: int, codec: str, axes: tuple[str, ...]) -> None:
    split = flat(axes)
    whole = REPLICATE if kind == "all_gather" else partial(axes)
    known = table(tensor("whole", elements, whole), tensor("split", elements, split))
    src, dst = ("split", "whole") if kind == "all_gather" else ("whole", "split")
    op = call(kind, axes, src, dst, codec)
    parts = overheads_of(op, known, MESH)
    assert sum(parts.values()) == message_bytes(op, known, MESH)
    assert parts["padding"] == Fraction(-elements % 12 * op.codec.bits, 8)
    assert parts["data"] >= Fraction(elements * op.codec.bits, 8)
