"""Studies for tests: a scenario of two plans on two devices, which takes milliseconds, and files that vary it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simfrontier.answers.sweep import SweepStudy, load_study
from simfrontier.base.io import toml_document
from tests.invoke import TOY

HOOK = "machine.overrides.host.hook_s"
MICRO, ACCUM = "training.micro_batch", "training.grad_accum"
SET = {"uncertainty.samples": 0}


def scenario(folder: Path, name: str = "small", plans: tuple[str, ...] = ("ddp", "zero1")) -> Path:
    """The toy with these plans on 2 devices, as a file in the folder."""
    text = TOY.read_text(encoding="utf-8").partition("[plans.zero3]")[0]
    text = text.replace('name = "toy"', f'name = "{name}"').replace("devices = [2, 4, 8, 16]", "devices = [2]")
    path = folder / f"{name}.toml"
    path.write_text(text + "".join(f"[plans.{plan}]\n" for plan in plans), encoding="utf-8")
    return path


def document(*axes: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """The document of a study of `small.toml` with these axes."""
    return {"name": "tried", "title": "Tried", "scenarios": ["small.toml"], "set": SET, "axes": [*axes], **more}


def write(folder: Path, value: Mapping[str, Any], name: str = "study.toml") -> Path:
    """A study's file in the folder, beside its scenario."""
    if not (folder / "small.toml").exists():
        scenario(folder)
    path = folder / name
    path.write_text(toml_document(value), encoding="utf-8")
    return path


def study(folder: Path, *axes: Mapping[str, Any], **more: Any) -> SweepStudy:
    """The same, read."""
    return load_study(write(folder, document(*axes, **more)))
