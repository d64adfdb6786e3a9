"""Shapes that extras add are found by name, and say themselves what can train them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from simfrontier.errors import InputError
from simfrontier.scenario import scenario_of
from simfrontier.workload import Attention, Checkpointing, Shape, Softmax, Workload, catalog, find_model, known_model
from tests.invoke import TOY


@dataclass(frozen=True, slots=True, kw_only=True)
class Picky:
    """A GPT that only ddp trains, in one micro-batch, and of which only the layers may be set."""

    name: str = "picky"
    num_layers: int = 2
    hidden: int = 64
    sequence: int = 32
    source: str = "made up"

    @property
    def num_parameters(self) -> int:
        return find_model("tiny").num_parameters

    @property
    def sample(self) -> str:
        return "sequences"

    @property
    def families(self) -> tuple[str, ...]:
        return ("ddp",)

    @property
    def gathers_statistics(self) -> bool:
        return True

    def refuse_step(self, grad_accum: int, precision: str, recomputes: bool) -> None:
        if grad_accum > 1:
            raise InputError(f"model {self.name}: got grad_accum = {grad_accum}; allowed: 1")

    def with_settings(self, settings: Mapping[str, Any]) -> Shape:
        if settings.keys() > {"num_layers"}:
            raise InputError("only num_layers may be set")
        return replace(self, **settings)

    def workload(
        self, batch: int, checkpointing: Checkpointing, precision: str, attention: Attention, softmax: Softmax
    ) -> Workload:
        return find_model("tiny").workload(batch, checkpointing, precision, attention, softmax)

    def step_flops(self, samples: int, recomputed: bool) -> float:
        return find_model("tiny").step_flops(samples, recomputed)


@pytest.fixture(autouse=True)
def picky(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "added", lambda module, kind: (Picky(),))


def made(**settings: Any) -> Any:
    document = tomllib.loads(TOY.read_text(encoding="utf-8"))
    document["plans"] = {"ddp": {"family": "ddp", "overlap_statistics": True}, "other": {"family": "ddp"}}
    document["model"] = {"name": "picky", "checkpointing": "none"}
    document["training"] = {"micro_batch": 1}
    for table in ("sensitivity", "published", "engine", "tune"):
        document.pop(table, None)
    return scenario_of(document, "s.toml", settings)


def test_it_is_found_by_its_name() -> None:
    assert isinstance(find_model("picky"), Shape)
    assert known_model("picky") == Picky() and known_model("picky2") is None
    with pytest.raises(InputError, match='did you mean "picky"'):
        find_model("picky2")


def test_a_scenario_takes_it_with_other_layers() -> None:
    assert made().shape == Picky()
    assert made(**{"model.num_layers": 3}).shape == Picky(num_layers=3)


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("plans.other.family", "zero3", "model picky: got family = 'zero3'; allowed: \"ddp\""),
        ("training.grad_accum", 2, "model picky: got grad_accum = 2; allowed: 1"),
    ],
)
def test_what_cannot_train_it_is_refused(setting: str, value: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        made(**{setting: value})
    assert message in str(caught.value)
