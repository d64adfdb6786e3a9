"""`runs`: published runs beside their predictions, on the terminal and in Python."""

from __future__ import annotations

import json

import pytest

import simfrontier as sf
from simfrontier.answers.accuracy.published_runs.left_out import LEFT_OUT, read_left_out
from tests.invoke import invoke


def test_rates_are_those_of_the_table_of_left_out_runs() -> None:
    rows = {row.run: row for row in read_left_out(LEFT_OUT)}
    table = sf.runs()
    assert len(table) == sum(row.facts.layers > 1 for row in rows.values())
    for shown in table.iloc[::50].to_dict("records"):
        row = rows[shown["run"]]
        tokens = row.facts.batch * row.facts.sequence / row.facts.devices
        assert shown["tokens_per_s_per_device"] == pytest.approx(tokens / row.measured_s)
        assert shown["predicted"] == pytest.approx(tokens / row.predicted_s)
        assert shown["error"] == pytest.approx(row.measured_s / row.predicted_s - 1.0)
        assert shown["low"] < shown["predicted"] < shown["high"]
    inside = table["tokens_per_s_per_device"].between(table["low"], table["high"])
    assert 0.85 < inside.mean() < 0.97  # of 90 % intervals


def test_printed_rates_are_those_per_device() -> None:
    """Where sources print tokens/s of a device, the rate is the printed value, whatever the scenario makes of it."""
    table = sf.runs()
    printed = table[table["unit"] == "tokens/s/GPU"]
    assert len(printed) > 200
    assert (printed["tokens_per_s_per_device"] / printed["value"]).between(0.999, 1.001).mean() > 0.9


def test_runs_are_found_by_names_and_parts_of_names() -> None:
    exact = sf.runs("llama-3-70b", "h100-node")
    assert set(exact["shape"]) == {"llama-3-70b"} and set(exact["machine"]) == {"h100-node"}
    assert set(sf.runs("llama-3", "H100")["run"]) > set(exact["run"])
    assert set(sf.runs("Nemotron4")["shape"]) == {""}  # by the name that sources write


def test_words_are_found_where_they_begin_and_numbers_as_a_whole() -> None:
    assert "gpt-oss-20b" in set(sf.runs("20b")["shape"]) and "gpt-oss-120b" not in set(sf.runs("20b")["shape"])
    assert set(sf.runs("7b")["model"]) == {"MPT-7b", "MPT-7B", "GPT 7B", "Llama-2-7B"}  # no Qwen3-1.7B
    assert set(sf.runs(machine="h200")["machine"]) == {"h200-node"}  # and no GH200


def test_machines_are_found_by_their_devices() -> None:
    assert set(sf.runs(machine="MI250X")["machine"]) == {"frontier", "lumi-g"}
    assert {"a100-node", "jean-zay-a100", "selene"} < set(sf.runs(machine="A100")["machine"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--model", "?"), "no published run"),
        (("--model", "llama-3-7b"), 'did you mean "llama-3-70b"'),
        (("--model", "llama-3-70b", "--machine", "mi300a"), "allowed: a100-node"),
    ],
)
def test_names_without_runs_are_one_line(options: tuple[str, ...], said: str) -> None:
    ran = invoke("runs", *options)
    assert (ran.code, ran.out) == (2, "") and said in ran.err and ran.err.count("\n") == 1


def test_the_command_prints_the_table() -> None:
    options = ("--model", "bloom-176b", "--machine", "jean-zay-a100")
    ran, records = invoke("runs", *options), json.loads(invoke("runs", *options, "--json").out)
    assert ran.code == 0 and f"{len(records)} runs." in ran.out
    assert all(record["run"] in ran.out and record["source"] for record in records)
