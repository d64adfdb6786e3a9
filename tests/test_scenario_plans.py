"""Plans of a scenario that cannot be: one line naming the plan, its option, what was got and what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.invoke import TOY, refusal, said_of

CODEC = "write int8:BLOCK with BLOCK elements per scale, e.g. int8:6144"
OF_ZERO3 = "attention, checkpointing, family, gather_codec, grad_accum, gradient_codec, micro_batch, softmax"
ALL_REDUCE = (
    "cannot carry int8:64; use fp64, fp32, fp16 or bf16, "
    "or give the state a flat placement so that the reduction is a scatter"
)


@pytest.mark.parametrize(
    ("plan", "setting", "message"),
    [
        ("zero3", "gather_code=1", 'gather_code: unknown key; did you mean "gather_codec"?'),
        ("zero3", "family=zero33", 'family: got "zero33"; did you mean "zero3"?'),
        (
            "zero3",
            "family=3",
            "family: got 3; allowed: axonn, ddp, hsdp, lattice, megatron, zero-topo, zero1, zero2, zero3, zeropp",
        ),
        ("zeropp", "hpz=3", "hpz: got 3, allowed: true or false"),
        ("zero3", "gather_codec=int8", f"gather_codec: codec 'int8': {CODEC}"),
        ("zero3", "gather_codec=int8:0", f"gather_codec: codec 'int8:0': {CODEC}"),
        ("zero3", "gather_codec=int8:-4", f"gather_codec: codec 'int8:-4': {CODEC}"),
        ("zero3", "gather_codec=int9:64", "gather_codec: codec 'int9:64': did you mean \"int8\"?"),
        ("zero3", "gather_codec=fp16:64", "gather_codec: codec 'fp16:64': fp16 takes no block size"),
        ("zero3", "gather_codec=8", 'gather_codec: got 8, allowed: a codec, such as "fp16" or "int8:6144"'),
        (
            "zeropp",
            "hpz_version=0.11.0",
            'hpz_version: got "0.11.0", allowed: "0.10.0", "0.10.2" or "0.13.2"; did you mean "0.10.0"?',
        ),
        ("zeropp", "hpz=1", "hpz: got 1, allowed: true or false"),
        ("zeropp", 'secondary=["rack"]', 'secondary: got "rack"; allowed: gcd, node, package'),
        ("hsdp", 'shard=["nod"]', 'shard: got "nod"; did you mean "node"?'),
        ("hsdp", 'shard=["gcd", "gcd"]', 'shard: got "gcd" twice, allowed: every axis once'),
        ("hsdp", "shard=gcd", 'shard: got "gcd", allowed: a list'),
        ("hsdp", "gradient_codec=int8:64", f"at 8 devices: step_reduction: an all-reduce over node {ALL_REDUCE}"),
        (
            "zero1",
            "reduction=reduce",
            'reduction: got "reduce", allowed: "all_reduce" or "reduce_scatter"; did you mean "reduce_scatter"?',
        ),
        ("zero3", "reduction=all_reduce", f"reduction: unknown key; allowed: {OF_ZERO3}"),
        (
            "zero2",
            "gradient_codec=int8:64",
            'reduction: got "all_reduce", which cannot carry gradient_codec = "int8:64" (codes cannot be added up on '
            'their way); allowed: "reduce_scatter"',
        ),
        (
            "zero-topo",
            "second_copy=int4",
            'second_copy: got "int4", allowed: "none", "plain", "fp16" or "int8"; did you mean "int8"?',
        ),
        ("zero-topo", "publish=direct", 'publish: got "direct", allowed: "node_then_package" or "flat"'),
    ],
)
def test_each_bad_option_names_its_plan(tmp_path: Path, plan: str, setting: str, message: str) -> None:
    got = said_of([f"plans.{plan}.{setting}"], tmp_path, plan)
    mark = ": " if message.startswith("at ") else "."
    assert got == f"plans.{plan}{mark}{message}"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ('weight=["pack"]', '.weight: got "pack"; did you mean "package"?'),
        ("weight=[3]", ".weight: got 3; allowed: gcd, node, package"),
        ('optimizer=["gcd", "gcd"]', '.optimizer: got "gcd" twice, allowed: every axis once'),
        ('nesting=["gcd"]', '.weight: got "package", allowed: axes of nesting: gcd'),
        ('nesting=["gcd", "package"]', '.optimizer: got "node", allowed: axes of nesting: gcd, package'),
        ('copy_axes=["rack"]', '.copy_axes: got "rack"; allowed: gcd, node, package'),
        (
            "copy_rule=never",
            '.copy_rule: got "never", allowed: "first_gather_of_step", "every_forward" or "stale_forward"',
        ),
        ('step_reduction=[{axes=["nod"]}]', '.step_reduction[0].axes: got "nod"; did you mean "node"?'),
        (
            'step_reduction=[{axes=["node"], codec="int9"}]',
            ".step_reduction[0].codec: codec 'int9': did you mean \"int8\"?",
        ),
        (
            'step_reduction=[{axes=["node"], via="rings"}]',
            '.step_reduction[0].via: got "rings", allowed: "library", "ring", "direct", "tree" or "hierarchical"; '
            'did you mean "ring"?',
        ),
        (
            'step_reduction=[{axes=["package"]}]',
            ": at 8 devices: step_reduction: head.weight.grad.reduced comes as "
            "[gcd:flat node:partial(sum) package:partial(sum)], and `optimizer` needs "
            "[gcd:flat node:flat package:flat]: "
            "a hop must cross node, but its hops cross package; "
            'for example step_reduction = [{ axes = ["package"] }, { axes = ["node"] }]',
        ),
        (
            'step_reduction=[{axes=["node"]}, {axes=["package", "node"]}]',
            ": at 8 devices: head.weight.grad.reduced: hops cross node twice; every axis belongs to one hop",
        ),
    ],
)
def test_each_bad_lattice_names_its_axes(tmp_path: Path, setting: str, message: str) -> None:
    assert said_of([f"plans.my-own.{setting}"], tmp_path, "my-own") == f"plans.my-own{message}"


def test_a_hop_needs_axes(tmp_path: Path) -> None:
    message = said_of(['plans.my-own.step_reduction=[{codec="fp16"}]'], tmp_path, "my-own")
    assert message == "plans.my-own.step_reduction[0].axes: missing"


@pytest.mark.parametrize(
    ("plans", "message"),
    [
        ("zero4", f'{TOY}: plans: got "zero4"; did you mean "zero3"?'),
        (
            "lattice",
            f'{TOY}: plans: got "lattice"; allowed: axonn, ddp, hsdp, megatron, my-own, zero-topo, '
            "zero1, zero2, zero3, zeropp",
        ),
        ("zero3,ddp,zero3", f'{TOY}: plans: got "zero3" twice, allowed: every plan once'),
        (",", "--plans: got ','; allowed: names separated by commas, e.g. zero3,zero-topo"),
    ],
)
def test_plans_are_named_once_and_known(tmp_path: Path, plans: str, message: str) -> None:
    assert refusal("run", TOY, "--out", tmp_path / "out", "--plans", plans) == message


@pytest.mark.parametrize(
    "setting",
    [
        "plans.ddp.overlap_statistics=true",
        "plans.tp={family='megatron', tensor=2, data={family='ddp', overlap_statistics=true}}",
    ],
    ids=["a plan", "the plan on data axes"],
)
def test_only_a_model_that_gathers_for_later_steps_overlaps_that(setting: str) -> None:
    line = refusal("run", TOY, "--set", setting)
    assert "overlap_statistics = true: tiny gathers nothing for later steps; allowed: false" in line
