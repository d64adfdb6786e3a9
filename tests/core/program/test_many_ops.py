"""Ops that the loops of a schedule file mean are counted before they are run."""

import json

import pytest

from simfrontier.base.errors import InputError
from simfrontier.core.program import from_json, to_json
from tests.core.program.builders import mesh_of, options_of, schedule_of


def test_loops_that_mean_too_many_ops_are_refused_and_yes_large_takes_more() -> None:
    form = json.loads(to_json(schedule_of(options_of("ddp"), mesh_of(1, 2, 2))))
    form["blocks"][0] = form["blocks"][0][:1]
    form["roles"][0]["calls"] = [{"times": 400_001, "layers": 0, "micros": 0, "calls": [["x", 0, 0, 0]]}]
    text = json.dumps(form)
    with pytest.raises(InputError, match=r"the loops mean 400,001 ops; allowed: up to 400,000 \(check, show and"):
        from_json(text, "s.json")
    assert len(from_json(text, "s.json", large=True).roles[0].calls) == 400_001
