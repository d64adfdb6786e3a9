"""Names of a schedule's tensors, for people: what a tensor is stands in its fields."""

from __future__ import annotations

from simfrontier.core.program.ir import Stage


def gathered_name(weight: str, stage: Stage, use: str = "") -> str:
    """A weight as its ranks hold it together for one pass, and for one `use` of several in that pass."""
    return f"{weight}.full{use}.{stage}"


def value_name(value: str, again: bool = False, stage: Stage | None = None, is_partial: bool = False) -> str:
    """A value: computed `again`, in the placement of a reader in one pass (`stage`), or still to be summed."""
    return value + ".again" * again + (f".gathered.{stage}" if stage else "") + ".partial" * is_partial


def buffer_name(end: str, suffix: str) -> str:
    """A buffer for a value that is being moved to a tensor."""
    return f"{end}.{suffix}"
