"""Plans and batches in the words of launch scripts: the tables that they mean, and words that mean none."""

from __future__ import annotations

from typing import Any

import pytest

from simfrontier.base.errors import InputError
from simfrontier.inputs.scenario import Scenario, scenario_of
from simfrontier.inputs.scenario.batches import batch_in_words, batch_near, tokens_of, usual_batch
from simfrontier.inputs.scenario.settings import selected_plans
from simfrontier.inputs.scenario.words import plan_in_words, split_plans

ZERO_1 = {"family": "zero1"}
TP_8 = {"tensor": 8, "sequence_parallel": True}


@pytest.mark.parametrize(
    ("text", "name", "table"),
    [
        ("zero3", "zero3", {"family": "zero3"}),
        ("FSDP2", "fsdp2", {"family": "zero3"}),
        ("zero stage 1", "zero-stage1", ZERO_1),
        ("FULL_SHARD", "full_shard", {"family": "zero3"}),
        ("zero++", "zeropp", {"family": "zeropp"}),
        ("DeepSpeed ZeRO stage 0", "deepspeed-zero-stage0", {"family": "ddp"}),
        ("fsdp 16", "fsdp16", {"family": "zero3", "data_ranks": 16}),
        ("zero3 offload_activations 8", "zero3-offload_activations8", {"family": "zero3", "offload_activations": 8}),
        ("tp 2 ep 8", "tp2-ep8", {"tensor": 2, "sequence_parallel": True, "expert": 8, "data": ZERO_1}),
        ("EP=16", "ep16", {"expert": 16, "data": ZERO_1}),
        (
            "pp4 vp2 zero3",
            "pp4-vp2-zero3",
            {"pipeline": 4, "layers": "even", "chunks": 2, "order": "interleaved", "data": {"family": "zero3"}},
        ),
        ("pipeline 2, cp 4", "pipeline2-cp4", {"pipeline": 2, "layers": "even", "context": 4, "data": ZERO_1}),
        (
            "tp 8 distributed optimizer, selective recompute, micro-batch 2",
            "tp8-distributed-optimizer-selective-recompute-micro-batch2",
            {**TP_8, "data": ZERO_1, "checkpointing": "selective", "micro_batch": 2},
        ),
        ("tp 8 no sequence parallel", "tp8-no-sequence-parallel", {**TP_8, "sequence_parallel": False, "data": ZERO_1}),
        (
            "pp 4 dualpipev",
            "pp4-dualpipev",
            {"pipeline": 4, "layers": "even", "order": "dualpipev", "chunks": 2, "data": ZERO_1},
        ),
        ("ep 8 dispatch deepep", "ep8-dispatch-deepep", {"expert": 8, "dispatch": "deepep", "data": ZERO_1}),
        ("3D", "3d", {"search": {"by": "usual"}, "data": ZERO_1}),
        ("x 2 y 2 z 8", "x2-y2-z8", {"family": "axonn", "x": 2, "y": 2, "z": 8, "data": {"family": "ddp"}}),
    ],
)
def test_words_are_tables(text: str, name: str, table: dict[str, Any]) -> None:
    assert plan_in_words(text) == (name, {"family": "megatron", **table})


@pytest.mark.parametrize(
    ("text", "plans"),
    [
        ("zero3, zero-topo", ("zero3", "zero-topo")),
        ("zero3; tp 8, pp 2", ("zero3", "tp 8, pp 2")),
        ("tp 8, pp 2", ("tp 8, pp 2",)),
        (" ; ", ()),
    ],
)
def test_plans_are_separated_by_semicolons_names_by_commas_too(text: str, plans: tuple[str, ...]) -> None:
    assert split_plans(text) == plans


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("tp", "tp; allowed: tp once"),
        ("tp 2 tp 4", "tp 4; allowed: tp once"),
        ("tp 0", 'got "0", allowed: a whole number of at least 1 for tp'),
        ("zero3 hsdp", "two plans separated by ;"),
        ("tp 2 zro3", 'did you mean "zero3"?'),
        ("tp 2 dispatsh deepep", 'did you mean "dispatch"?'),
        ("zro3", 'did you mean "zero3"?'),
    ],
)
def test_other_words_are_refused_in_one_line(text: str, line: str) -> None:
    with pytest.raises(InputError) as caught:
        plan_in_words(text)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "batch", "tokens"),
    [
        ("512", 512, None),
        ("1,024 sequences", 1024, None),
        ("4M", "4M tokens", 4e6),
        ("0.5M tok", "0.5M tokens", 5e5),
        ("2,097,152 tokens", "2,097,152 tokens", 2097152.0),
    ],
)
def test_batches_are_sequences_or_tokens(text: str, batch: int | str, tokens: float | None) -> None:
    assert batch_in_words(text) == batch
    assert tokens_of(text) == tokens


@pytest.mark.parametrize("text", ["", "0", "0M", "4M sequences", "1.5", "tokens", "4 M tokens of text"])
def test_other_batches_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="allowed: sequences of a step, or its tokens"):
        batch_in_words(text)


def test_tokens_are_the_published_number_of_sequences() -> None:
    """Llama 2: 4M tokens are 1,024 sequences of 4,096; GPT-3 175B: 3.2M are 1,536 of 2,048 (arXiv 2307.09288,
    2005.14165)."""
    assert batch_near(4e6 / 4096, [8, 16]) == 1024
    assert batch_near(3.2e6 / 2048, [16]) == 1536


def test_the_batch_divides_for_every_plan_that_can_have_it() -> None:
    assert batch_near(1000, [96, 64]) == 960  # of multiples of 192
    assert batch_near(30, [128, 8]) == 32  # 128 ranks without a sequence each are no reason for four times the batch


DOCUMENT = {
    "name": "words",
    "title": "Words",
    "machine": {"name": "Toy-Cluster"},
    "model": {"name": "Tiny", "seq": 64},
    "training": {"global_batch": "1k tokens"},
    "run": {"devices": [8]},
    "plans": {"words": "tp 2 pp 2", "short": {"tp": 2, "pp": 2}, "zero3": {}},
}


def scenario(**tables: Any) -> Scenario:
    return scenario_of({**DOCUMENT, **tables}, "words.toml")


def test_tables_may_have_words_and_short_names() -> None:
    made = scenario()
    assert made.machine.name == "toy-cluster"
    assert made.shape.sequence == 64
    assert made.plans["words"] == made.plans["short"]
    assert {made.case(plan, 8).samples for plan in made.plans} == {16}


def test_fractions_of_thousands_need_no_zero() -> None:
    assert scenario(training={"batch": ".5k"}).case("zero3", 8).samples == 8


def test_names_of_the_document_are_no_words() -> None:
    plans = {"tp2": {"tp": 2, "mbs": 2}, "pp2": "pp 2"}
    made = scenario_of({**DOCUMENT, "plans": plans}, "words.toml", plans=("pp2,tp2", "tp 4"))
    assert [*made.plans] == ["pp2", "tp2", "tp4"]
    assert made.plans["tp2"].micro_batch == 2


def test_settings_may_have_short_names() -> None:
    made = scenario_of(DOCUMENT, "words.toml", {"plans.short.tp": 4, "model.seq_len": 32, "training.gbs": "512 tokens"})
    assert made.case("short", 8).samples == 16
    assert made.document["plans"]["short"]["tensor"] == 4


def test_a_degree_that_is_set_ends_the_search_for_the_usual_grid() -> None:
    assert scenario_of(DOCUMENT, "words.toml", plans=("megatron",)).searches.keys() == {"megatron"}
    made = scenario_of(DOCUMENT, "words.toml", {"plans.megatron.tp": 4}, ("megatron",))
    assert not made.searches
    assert made.case("megatron", 8).batch_ranks == 2


@pytest.mark.parametrize(
    ("tables", "line"),
    [
        ({"plans": {"a": {"tp": 2, "tensor": 2}}}, "plans.a.tp: is tensor, which the table has, too"),
        ({"training": {"batch": "a lot"}}, "training.batch: got"),
        ({"plans": {"a": {"family": "FULL_SHARD"}}}, 'plans.a.family: got "FULL_SHARD"; did you mean "zero3"?'),
        ({"plans": {"a": "tp 2 foo 3"}}, "plans.a: plan 'tp 2 foo 3': 'foo'"),
        ({"plans": {"a": "tp 2 zb-h1"}}, 'plans.a.order: got "zb-h1", which changes nothing with pipeline = 1'),
        ({"plans": {"a": "tp 2 dispatch deepep"}}, "plans.a.dispatch: got"),
        ({"plans": {"a": "tp 2 context_by gather"}}, "plans.a.context_by: got"),
        ({"model": {"name": "tiny", "lora_rank": 65}}, "model.lora_rank: got 65, allowed: up to hidden = 64"),
        ({"plans": {"a": "tp 2 dp 8"}}, "the grid leaves 4 of 8 devices; allowed: 4, or 16 devices"),
    ],
)
def test_faults_name_the_key(tables: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError) as caught:
        scenario(**tables)
    assert line in str(caught.value)


def test_the_usual_batch_is_that_of_published_models_of_the_size() -> None:
    """Llama 2 70B: 4M tokens, 1,024 sequences of 4,096; GPT-3 XL of 1.3B: 1M, 512 of 2,048."""
    assert usual_batch(70e9, 4096, [(512, 1), (128, 2)]) == 1024
    assert usual_batch(1.3e9, 2048, [(64, 1)]) == 512


def test_the_usual_batch_has_few_micro_batches_and_one_for_every_rank() -> None:
    assert usual_batch(70e9, 4096, [(8, 1), (1, 16)]) == 64  # of one rank in a pipeline of 16: four a stage
    assert usual_batch(70e9, 4096, [(2048, 1)]) == 2048


def test_a_batch_may_be_the_usual_one() -> None:
    made = scenario(training={"batch": "usual"})
    assert {made.case(plan, 8).samples for plan in made.plans} == {16}  # 2 data ranks × 8 micro-batches


@pytest.mark.parametrize("text", ["dp 16", "micro-batch 3"])
def test_words_without_a_plan_say_so(text: str) -> None:
    with pytest.raises(InputError, match="names no plan"):
        selected_plans({}, [text])


def test_a_batch_has_one_fault() -> None:
    """Its two forms, sequences and words, are no two faults."""
    document = {"name": "a", "title": "A", "machine": {"name": "frontier"}, "model": {"name": "gpt-13b"}}
    with pytest.raises(InputError, match=r"got 0, allowed: at least 1$"):
        scenario_of({**document, "training": {"batch": 0}, "run": {"devices": [8]}, "plans": {"zero3": {}}}, "a.toml")


def test_settings_with_a_family_make_a_plan() -> None:
    """Also one whose name is a key of a plan, or a word."""
    document = {"name": "a", "title": "A", "machine": {"name": "frontier"}, "model": {"name": "gpt-13b"}}
    whole = {**document, "training": {"batch": 8}, "run": {"devices": [8]}, "plans": {"zero3": {}}}
    for name in ("hpz", "mine", "tp"):
        scenario = scenario_of(whole, "a.toml", {f"plans.{name}.family": "zeropp"}, (name,))
        assert [*scenario.plans] == [name] and scenario.plans[name].family == "zeropp"
