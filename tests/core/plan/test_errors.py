"""Plans that cannot be: moves without a way, grids and keys that do not go together, types, policies; each once."""

from typing import Any

import pytest

from simfrontier.base.errors import InputError
from simfrontier.core.plan.moves import Hop, steps_of
from simfrontier.core.plan.zero import BucketOptions
from simfrontier.core.program import Mesh
from simfrontier.core.program.placement import REPLICATE, Placement, flat, partial
from tests.core.plan.grids import axonn, megatron, other, schedule_of
from tests.core.plan.test_precision import built

NODE2 = Mesh((("node", 2), ("package", 4), ("gcd", 2)))
ALL = ("node", "package", "gcd")


@pytest.mark.parametrize(
    ("src", "dst", "hops", "words"),
    [
        (REPLICATE, partial(("node",)), [ALL], "no way from [replicate] to [node:partial(sum)] (reached [replicate])"),
        (Placement((("gcd", 0),)), flat(("gcd",)), [ALL], "no way from [gcd:shard(0)] to [gcd:flat]"),
        (flat(ALL), REPLICATE, [("node",), ("gcd",)], "crosses package, but its hops cross: node; gcd"),
        (flat(ALL), REPLICATE, [ALL, ("gcd",)], "hops cross gcd twice; every axis belongs to one hop"),
        (flat(ALL), REPLICATE, [("nodes",)], "mesh: no axis 'nodes'; did you mean \"node\"?"),
        (Placement((("gcd", 0),), frozenset({"node"})), flat(("node",)), [ALL], "would change the shards over gcd"),
        (Placement((("node", 0), ("gcd", 0))), Placement((("gcd", 0),)), [ALL], "but gcd cuts dimension 0 inside it"),
        (Placement(partial=(("node", "sum"), ("gcd", "max"))), REPLICATE, [ALL], "would reduce by max and sum"),
        (partial(("gcd",), op="merge"), flat(("gcd",)), [ALL], "would scatter over gcd what is still to be merged"),
    ],
)
def test_moves_without_a_way(src: Placement, dst: Placement, hops: list[tuple[str, ...]], words: str) -> None:
    with pytest.raises(InputError) as caught:
        steps_of(NODE2, ALL, src, dst, tuple(map(Hop, hops)), "qkv.weight")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("options", "ranks", "keys", "words"),
    [
        (axonn(2, 2, 2), 12, {}, "z 2 × y 2 × x 2 = 8 ranks does not divide 12 devices; "),
        (
            megatron(2, 2, order="interleaved", chunks=2),
            8,
            {"micros": 3, "shape": other(num_layers=4)},
            "nearest: 2 and 4",
        ),
        (
            megatron(1, 2, order="zb-v"),
            8,
            {"shape": other(num_layers=4)},
            'chunks = 1: order = "zb-v" has two on each stage; allowed: 2',
        ),
        (
            megatron(1, 2, chunks=2),
            8,
            {"shape": other(num_layers=4)},
            'chunks = 2: order = "1f1b" has one; allowed: 1, or order = "interleaved", "zb-h1", "zb-v", "dualpipev"',
        ),
        (
            megatron(1, 2, order="dualpipev", chunks=2),
            8,
            {"micros": 3, "shape": other(num_layers=4)},
            'order = "dualpipev" needs two micro-batches per stage: 4 or more, got 3',
        ),
        (megatron(5), 5, {}, "tensor = 5 does not divide heads = 24; nearest that do: 4 and 6"),
        (axonn(2, 1, 2, data=BucketOptions(family="zero1", gather="next_forward")), 8, {}, 'allowed: "step_end"'),
        (megatron(4, product_pieces=2), 8, {}, "product_pieces = 2: needs sequence_parallel = true; allowed: 1"),
        (megatron(4, sequence_parallel=True, product_pieces=5), 8, {}, "product_pieces = 5 does not divide"),
        (
            megatron(4, sequence_parallel=True, product_pieces=2, compression="naive-zfp:16"),
            8,
            {},
            "product_pieces = 2: what moves is compressed as a whole; allowed: 1",
        ),
        (megatron(1, layers=(2,)), 2, {}, "layers = [2]: there is one stage; allowed: with pipeline = 2 or more"),
        (
            megatron(1, 2, layers=(2, 1, 1)),
            2,
            {"micros": 2},
            "layers = [2, 1, 1]: 3 numbers for pipeline = 2 groups of layers; allowed: 2 numbers",
        ),
        (
            megatron(1, 2, order="interleaved", chunks=2, layers=(1, 1)),
            2,
            {"micros": 2},
            "2 numbers for pipeline = 2 × chunks = 2 groups of layers; allowed: 4 numbers",
        ),
        (megatron(1, 2, layers=(2, 1)), 2, {}, "layers = [2, 1]: 3 layers; allowed: the 2 of grid-test"),
        (
            megatron(1, 5, layers="even"),
            5,
            {"micros": 5},
            'layers = "even" of 2 in 5 groups: none on stage 3; allowed: 1 or more',
        ),
        (megatron(1, 4), 4, {"shape": other(num_layers=6)}, 'nearest that do: 3 and 6; or layers = "even"'),
        (
            megatron(1, 3, layers=(1, 0, 1)),
            3,
            {},
            "layers = [1, 0, 1]: none on stage 1; allowed: 1 or more on a stage without",
        ),
        (
            megatron(1, 2, order="interleaved", chunks=2, layers=(1, 0, 0, 1)),
            2,
            {"micros": 2},
            "layers = [1, 0, 0, 1]: activations return to stage 0 unchanged; allowed: 1 or more in between",
        ),
    ],
)
def test_grids_and_keys_that_do_not_go_together(options: Any, ranks: int, keys: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        schedule_of(options, ranks, **keys)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("family", "precision", "keys", "words"),
    [
        ("ddp", "fp16", {"moments": "fp16"}, 'model.moments = "fp16" of a model in fp16; allowed: "fp32"'),
        ("ddp", "fp16", {"master": "bf16"}, 'model.master = "bf16" of a model in fp16; allowed: "fp16" or "fp32"'),
        ("ddp", "fp64", {"gradients": "fp32"}, 'model.gradients = "fp32" of a model in fp64; allowed: "fp64"'),
        (
            "zero-topo",
            "fp32",
            {"second_copy": "fp16"},
            "head.weight.copy is stored as fp16, but its hop over gcd+packa",
        ),
    ],
)
def test_types_that_states_may_not_have(family: str, precision: str, keys: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        built(family, precision, **keys)
    assert words in str(caught.value)
