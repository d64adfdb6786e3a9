"""Flags that a text turns off, apart from the words beside them."""

from __future__ import annotations

import re
import time

import pytest

from simfrontier.accuracy.published_runs.switches import without_off


@pytest.mark.parametrize(
    ("text", "on", "off"),
    [
        ("FSDP no offload", "FSDP", "no offload"),
        ("w/o offload FSDP 8", "FSDP 8", "w/o offload"),
        ("sequence parallel no tp 2", "tp 2", "sequence parallel no"),
        ("no TP/PP, FSDP 8", ", FSDP 8", "no TP/PP"),
        ("zero0 (bf16 optimizer shards fp32 states)", "(bf16 optimizer shards fp32 states)", "zero0"),
        ("virtual pipeline stages 1 interleaved no", "", "virtual pipeline stages 1; interleaved no"),
    ],
)
def test_a_word_belongs_to_the_flag_that_it_turns_off(text: str, on: str, off: str) -> None:
    found_on, found_off = without_off(text)
    assert (" ".join(found_on.split()), found_off) == (on, off)


@pytest.mark.parametrize(
    "text",
    [
        *("FSDP 20 x TP 8", "FSDP 8 - TP 8", "FSDP no reshard", "zero1, buckets 0.45-0.5e9", "dp_shard=-1"),
        *("not told", "tp 8 pp 1 dp 1", "NO_SHARD", "cp 10", "FSDP2 over 64", "dp, distributed optimizer (not told)"),
    ],
)
def test_nothing_is_off_where_no_word_says_it(text: str) -> None:
    assert without_off(text) == (text, "")


@pytest.mark.parametrize("text", ["ZeRO" + "-" * 50_000, "no " * 20_000, "FSDP=" * 10_000, "TP / " * 10_000])
def test_a_long_text_takes_no_long_time(text: str) -> None:
    start = time.process_time()
    without_off(text)
    assert time.process_time() - start < 5.0


@pytest.mark.parametrize(
    "text", ["--no-fsdp", "FSDP-0", "fsdp:0.0", "EP —", "interleave off", "no interleave", "--no-sequence-parallel"]
)
def test_dashes_and_zeros_of_any_kind_turn_a_flag_off(text: str) -> None:
    beside, off = without_off(f"tp 8, {text}, pp 2")
    assert off and not set(re.findall(r"fsdp|EP|interleave|sequence", beside))
    assert "tp 8" in beside and "pp 2" in beside
