"""Software stacks: what they change of a machine and scenario, which one a family runs by, faults of their files."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from simfrontier.answers.study import run_study, schedule_of
from simfrontier.core.cost import Kernel
from simfrontier.core.machine import MatmulForms, load_machine
from simfrontier.core.machine.stack import Stack, StackHost, StackKernels, StackMemory, load_stack, stacks, usual_stack
from simfrontier.core.program import Collective, Compute
from simfrontier.inputs.scenario import Scenario, scenario_of

TABLES: dict[str, Any] = {"kernels": StackKernels, "host": StackHost, "memory": StackMemory}
OWN = """
name = "own"
title = "of one's own"
base = "fsdp1"

[kernels]
attention = "flash2"
pointwise_traffic = { value = 3.0, kind = "measured", source = "mine" }

[engine]
granularity = "module"

[plans.zero3]
gradient_codec = "fp32"
"""


def scenario(stack: str, **plan: Any) -> Scenario:
    return scenario_of(
        {
            "name": "s",
            "title": "s",
            "machine": {"name": "a100-node"},
            "stack": stack,
            "model": {"name": "tiny", "attention": "fused"},
            "run": {"devices": [8]},
            "plans": {"p": {"family": "zero3", **plan}},
        },
        "s.toml",
    )


@pytest.mark.parametrize("name", stacks())
def test_every_stack_of_the_catalog_is_read_and_runs(name: str) -> None:
    machine = scenario(name).machine
    assert machine.kernels.pointwise_traffic >= 1.0
    assert load_stack(name).name == name


def test_a_stack_chooses_kernels_of_the_device() -> None:
    machine = load_machine("a100-node")
    made = load_stack("fsdp1").on(machine)
    assert made.kernels.attention == machine.device.attention["flash1"]
    assert made.kernels.pointwise_traffic > 2.0
    assert load_stack("fsdp1").on(load_machine("frontier")).kernels.attention is None  # its file knows none
    assert machine.kernels.pointwise_traffic == 1.0


def test_a_stack_that_reserves_more_than_there_is_leaves_nothing() -> None:
    machine = load_machine("a100-node", {"device.hbm_bytes": 1e6})
    stack = load_stack("fsdp1-flash2")
    assert stack.memory.reserved_bytes > 1e6 and stack.on(machine).device.hbm_bytes == 0.0


def test_products_move_their_operands_once_whatever_the_stack(tmp_path: Path) -> None:
    """Two stacks of one's own whose kernels without products move 3 and 6 times the bytes of the graph's ops: twice as
    many by the second. A matrix product reads its factors and writes its result by either."""
    moved = []
    for traffic in ("3.0", "6.0"):
        path = tmp_path / f"{traffic}.toml"
        path.write_text(OWN.replace("value = 3.0", f"value = {traffic}"), encoding="utf-8")
        made = scenario(str(path))
        schedule = schedule_of(made, "p", 8)
        ops = {op.name: op for op in schedule.ops if isinstance(op, Compute)}
        moved.append(
            [Kernel.of(ops[name], schedule, made.machine).num_bytes for name in ("h_to_4h", "4h_to_h", "gelu")]
        )
    few, many = moved
    assert many[:2] == few[:2]
    assert many[2] == 2.0 * few[2] > 0.0


def test_products_of_one_type_are_slower_by_the_factor_of_that_type(tmp_path: Path) -> None:
    """A stack whose fp16 products take 1.5 times as long: so does the arithmetic of a model in fp16, not of one in
    bf16; attention runs by a kernel of its own."""
    path = tmp_path / "slow.toml"
    more = '[kernels.products]\nfp16 = { value = 1.5, kind = "assumed", source = "mine" }\n\n[engine]'
    path.write_text(OWN.replace("[engine]", more), encoding="utf-8")

    def arithmetic_s(stack: str, precision: str, name: str) -> float:
        made = scenario_of(
            scenario(stack).document | {"model": {"name": "tiny", "attention": "fused", "precision": precision}},
            "s.toml",
        )
        schedule = schedule_of(made, "p", 8)
        op = next(each for each in schedule.ops if isinstance(each, Compute) and each.name == name)
        return Kernel.of(op, schedule, made.machine).arithmetic_s

    for precision, factor in (("fp16", 1.5), ("bf16", 1.0)):
        plain = arithmetic_s("fsdp1-flash2", precision, "h_to_4h.wgrad")
        assert arithmetic_s(str(path), precision, "h_to_4h.wgrad") == pytest.approx(factor * plain)


@pytest.mark.parametrize(("window", "keys"), [(None, 256.5), (8, (8 * 9 / 2 + 504 * 8) / 512)])
def test_fused_attention_takes_a_start_for_each_row_of_tiles_and_each_score(window: int | None, keys: float) -> None:
    """Heads of 64 features, 512 positions: a query attends to 256.5 keys on average, or to 8, the first ones to fewer.
    A start of 580 keys and 90 features over 4,096 and 128, as which the device's rate is measured."""
    shape = {"sequence": 512, "hidden": 256, "heads": 4, "causal": True, "window": window, "attention": "fused"}
    model = {"name": "tiny", "precision": "bf16", **{key: value for key, value in shape.items() if value is not None}}
    document = scenario("megatron-core").document | {"model": model, "machine": {"name": "gb200-nvl72"}}
    made = scenario_of(document, "s.toml")
    schedule = schedule_of(made, "p", 8)
    share = (1 + 580 / 4096) / (1 + 580 / keys) * (1 + 90 / 128) / (1 + 90 / 64)
    attention = [op for op in schedule.ops if isinstance(op, Compute) and op.kind == "attention"]
    for op in attention:
        seconds = op.local_flops(schedule.mesh) / (made.machine.device.attention["cudnn"] * share)
        assert Kernel.of(op, schedule, made.machine).arithmetic_s == pytest.approx(seconds)
    assert {op.named.part for op in attention} == {None, "backward"}


def test_gradients_are_added_up_by_kernels_of_their_own_and_reduced_in_a_type_of_their_own() -> None:
    """DeepSpeed's optimizer of bf16: 18 bytes of memory traffic for each weight and bias of a product beside it; what
    is sent is bf16, though sums are fp32. fp16 models have none of it."""
    grid = {"family": "megatron", "tensor": 2, "data": {"family": "zero1"}}
    for precision, num_bytes in (("bf16", 18.0), ("fp16", 0.0)):
        model = {"name": "tiny", "precision": precision}
        made = scenario_of(scenario("megatron-deepspeed").document | {"model": model, "plans": {"p": grid}}, "s.toml")
        schedule = schedule_of(made, "p", 8)
        product = next(op for op in schedule.ops if isinstance(op, Compute) and op.name == "h_to_4h.wgrad")
        sent = next(op for op in schedule.ops if isinstance(op, Collective) and op.name == "step_reduction")
        plain = replace(made.machine, kernels=replace(made.machine.kernels, sum_bytes={}))
        whole, less = (Kernel.of(product, schedule, machine).paced_s for machine in (made.machine, plain))
        made_of = (schedule.tensors[ref.name] for ref in (*product.writes, *product.accumulates))
        elements = sum(tensor.local_elements(schedule.mesh) for tensor in made_of)
        device = made.machine.device
        assert whole - less == pytest.approx(num_bytes * elements / (device.hbm_bytes_per_s * device.hbm_share))
        assert str(sent.codec) == precision


def test_a_user_writes_one_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(OWN, encoding="utf-8")
    made = scenario(str(path))
    assert made.machine.kernels.pointwise_traffic == 3.0
    assert made.machine.kernels.attention == made.machine.device.attention["flash2"]
    assert made.file.engine.granularity == "module"
    assert made.file.plans["p"]["gradient_codec"] == "fp32"
    assert scenario(str(path), gradient_codec="plain").file.plans["p"]["gradient_codec"] == "plain"


def test_plans_that_are_plainly_data_parallel_reduce_in_the_stack_s_type_too() -> None:
    stack, model = load_stack("megatron-deepspeed"), {"precision": "bf16"}
    plans = {"zero1": {}, "a": "ddp", "b": {"family": "zero2", "gradient_codec": "plain"}, "zeropp": {}}
    made = stack.under({"model": model, "plans": plans})["plans"]
    assert made["zero1"]["gradient_codec"] == made["a"]["gradient_codec"] == "bf16" and made["a"]["family"] == "ddp"
    assert (made["b"], made["zeropp"]) == (plans["b"], {})
    assert "gradient_codec" not in stack.under({"model": {"precision": "fp16"}, "plans": plans})["plans"]["zero1"]


def test_a_stack_s_library_of_products_has_forms_of_its_own() -> None:
    frontier = load_machine("frontier")
    assert frontier.device.matmul_forms.tn == frontier.device.matmul_forms.nn == 0.845
    assert load_stack("transformers-rocm7").on(frontier).device.matmul_forms == MatmulForms()
    assert load_stack("deepspeed").on(frontier).device.matmul_forms == frontier.device.matmul_forms


@pytest.mark.parametrize(("precision", "type_of"), [("bf16", "fp32"), ("fp16", None)])
def test_a_stack_s_type_of_gradients_goes_with_the_model_s(precision: str, type_of: str | None) -> None:
    stack = load_stack("megatron")
    assert stack.under({"model": {"precision": precision}})["model"].get("gradients") == type_of
    own = {"precision": precision, "gradients": precision}
    assert stack.under({"model": own})["model"] == own


def test_a_family_s_name_stands_for_its_table() -> None:
    stack = load_stack("megatron-core")
    own = {"family": "zero1", "reduction": "reduce_scatter", "gather": "next_forward"}
    assert stack.plan({"family": "megatron", "data": "zero1"})["data"] == own
    assert stack.plan({"family": "megatron", "data": "zero3"})["data"] == "zero3"
    assert stack.under({"plans": {"zero1": {}}})["plans"]["zero1"] == {key: own[key] for key in ("reduction", "gather")}


def test_the_document_of_stacks_has_every_key_and_its_example_is_one(tmp_path: Path) -> None:
    text = Path("docs/stacks.md").read_text(encoding="utf-8").partition("## A stack file\n")[2]
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    listed = {key.strip(" `") for row in rows for key in row.split(", ")}
    keys = {f"{table}.{each.name}" for table, form in TABLES.items() for each in fields(form)}
    assert listed == keys | ({each.name for each in fields(Stack)} - TABLES.keys()) | {"base"}
    path = tmp_path / "ours.toml"
    path.write_text(text.split("```toml\n")[1].split("```")[0], encoding="utf-8")
    assert load_stack(str(path)).plans["megatron"]["sequence_parallel"] is True


PLANS: dict[str, Any] = {"zero3": {}, "hsdp": {}, "pipe": {"family": "megatron", "tensor": 2}}


def without_stack(**more: Any) -> Scenario:
    document = {
        "name": "stacks",
        "title": "Stacks",
        "machine": {"name": "frontier"},
        "model": {"name": "tiny"},
        "run": {"devices": [16]},
        "plans": PLANS,
    }
    return scenario_of({**document, **more}, "stacks.toml")


@pytest.mark.parametrize("plan", PLANS)
def test_the_default_is_the_run_that_names_that_stack(plan: str) -> None:
    default = run_study(without_stack())
    stack = usual_stack(without_stack().plans[plan].family)
    assert stack is not None
    (named,) = run_study(without_stack(stack=stack.name)).of(plan)
    (own,) = default.of(plan)
    against = {"speedup": ""}  # another stack changes the first plan, too
    assert own.row | against == named.row | against and own.row["stack"] == stack.name


def test_none_is_kernels_as_fused_as_the_model_on_the_machine_as_it_is() -> None:
    of = without_stack(stack="none")
    assert of.of("zero3", 16).machine == of.machine and of.of("zero3", 16).stack is None
    own, none = (run_study(each).of("zero3")[0].row for each in (without_stack(), of))
    assert none["stack"] == "none" and own["step_time_nominal_s"] != none["step_time_nominal_s"]
    assert without_stack().of("zero3", 16).machine == load_stack("deepspeed").on(of.machine)


def test_a_stack_scales_the_optimizers_traffic_only_if_it_names_it() -> None:
    def adam_bytes(stack: str) -> float:
        made = scenario(stack)
        schedule = schedule_of(made, "p", 8)
        op = next(each for each in schedule.ops if isinstance(each, Compute) and each.kind == "adam")
        return Kernel.of(op, schedule, made.machine).num_bytes

    # fsdp1 scales the model's kernels alone; torch.optim.AdamW's kernels and logs move 120 bytes a parameter, not 52
    assert adam_bytes("megatron-deepspeed-xpu") == pytest.approx(2.3 * adam_bytes("fsdp1"))


def test_pytorch_calls_cudnn_only_where_a_machine_has_its_rate() -> None:
    hopper, blackwell = load_machine("h100-node"), load_machine("b200-node")
    assert load_stack("fsdp2").on(hopper).kernels.attention == hopper.device.attention["flash2"]
    assert load_stack("fsdp2").on(blackwell).kernels.attention == blackwell.device.attention["sdpa"]
