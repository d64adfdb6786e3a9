"""The pages name every stack that has another default of a key, if not its base, and no other one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from simfrontier.base.io import read_toml
from simfrontier.core.machine.stack import CATALOG, load_stack, stacks

DOCS = Path(__file__).parents[3] / "docs"
KEY = re.compile(r"(engine\.[a-z_]+|plans\.[a-z0-9]+\.[a-z_]+)")


def stacks_by_key() -> dict[str, set[str]]:
    """Return the stacks that set each key of the engine or of a family's plans."""
    out: dict[str, set[str]] = {}
    for name in stacks():
        stack = load_stack(name)
        families = {f"plans.{family}": keys for family, keys in stack.plans.items()}
        for table, keys in {"engine": stack.engine, **families}.items():
            for key in keys:
                out.setdefault(f"{table}.{key}", set()).add(name)
    return out


def with_based(names: set[str]) -> set[str]:
    """Return stacks with all that are based on them."""
    bases = {name: read_toml(CATALOG / f"{name}.toml", "stack").get("base") for name in stacks()}
    for _ in bases:
        names = names | {name for name, base in bases.items() if base in names}
    return names


def documented() -> Iterator[tuple[str, str]]:
    """Yield keys with their rows: of defaults.md by their dotted names, of grids.md by key and family."""
    for line in (DOCS / "defaults.md").read_text(encoding="utf-8").splitlines():
        if found := re.match(rf"\| `{KEY.pattern}`", line):
            yield found[1], line
    for line in (DOCS / "grids.md").read_text(encoding="utf-8").splitlines():
        if found := re.match(r"\| `([a-z_]+)` \| (axonn|megatron) \|", line):
            yield f"plans.{found[2]}.{found[1]}", line


@pytest.mark.parametrize(("key", "row"), list(documented()), ids=lambda each: each[:40])
def test_a_row_of_a_default_names_the_stacks_that_have_another(key: str, row: str) -> None:
    named = {text for text in re.findall(r"`([a-z0-9-]+)`", row) if text in stacks()}
    assert with_based(named) == stacks_by_key().get(key, set())
