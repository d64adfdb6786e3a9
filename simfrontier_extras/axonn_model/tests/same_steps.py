"""Steps whose times must stay the same (`tests.same`)."""

from __future__ import annotations

from tests.same.job import Step

ADDS = (
    Step(name="80B megatron", scenario="axonn-perlmutter-80b", plan="megatron", devices=1024),
    Step(name="80B axonn", scenario="axonn-perlmutter-80b", plan="axonn", devices=1024),
)
