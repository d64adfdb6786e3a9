"""Rules of reading: which hold, which win, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfrontier.accuracy.published_runs.rules import Rule, load_rules, told
from simfrontier.errors import InputError
from tests.accuracy.published_runs.rows import run


def test_the_first_rule_that_sets_a_key_holds() -> None:
    rules = (
        Rule(where={"plan": r"tp (?P<n>\d+)"}, set={"grid": {"tensor": "{n}"}, "plan": {"a": "{n}x"}}),
        Rule(where={"plan": "tp"}, set={"grid": {"tensor": 2}, "plan": {"b": True}}, assumed="something"),
        Rule(where={"plan": "tp"}, set={"plan": {"b": False}}, assumed="never said, since nothing of it holds"),
    )
    made = told(run(plan="TP 16 pp 2"), rules)
    assert made.values == {"grid": {"tensor": 16}, "plan": {"a": "16x", "b": True}}
    assert [each.text for each in made.assumed] == ["something"]


def test_all_patterns_of_a_rule_must_be_found() -> None:
    rule = Rule(where={"plan": "tp", "machine": "^lumi"}, set={"plan": {"a": 1}})
    assert told(run(plan="tp 2", machine="frontier"), (rule,)).values == {}
    assert told(run(plan="tp 2", machine="lumi-g"), (rule,)).values == {"plan": {"a": 1}}


@pytest.mark.parametrize(
    ("text", "value"), [("1,024", 1024), ("0.5", 0.5), ("a100", "a100"), ("07", 7), ("1.2.3e4", "1.2.3e4")]
)
def test_numbers_become_numbers(text: str, value: object) -> None:
    rule = Rule(where={"notes": "x(?P<n>.*)"}, set={"plan": {"a": "{n}"}})
    assert told(run(notes=f"x{text}"), (rule,)).values == {"plan": {"a": value}}


def test_a_refusal_ends_the_reading() -> None:
    rules = (Rule(where={"plan": "."}, refused="cannot"), Rule(set={"plan": {"a": 1}}))
    assert told(run(plan="any"), rules).refused == "cannot"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{ where = { plan = 'x' }, set = { modle.hidden = 1 } }", "model"),
        ("{ when = { plan = 'x' } }", "when"),
    ],
)
def test_a_bad_file_of_rules_is_one_line(line: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(f"rules = [\n    {line},\n]\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_rules(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_shipped_rule_is_one_line() -> None:
    text = Path("simfrontier/accuracy/published_runs/readings.toml").read_text(encoding="utf-8")
    assert len(load_rules()) == sum(line.strip().startswith("{") for line in text.splitlines())
