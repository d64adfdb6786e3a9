"""Where the numbers of a file come from, machine's or library's: every table that has a kind and a source."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from simfrontier.base.units import unit_of
from simfrontier.core.machine.hardware import Provenance


def sources_of(
    document: Mapping[str, Any], num_entries: Callable[[Mapping[str, Any]], int], prefix: str = ""
) -> Iterator[Provenance]:
    """The numbers of a valid document in its order; of a table without a value, how many entries it has."""
    for name, part in document.items():
        if not isinstance(part, dict):
            continue
        key = prefix + name
        if "source" not in part or "kind" not in part:  # a table of tables, in which a name may be "source"
            yield from sources_of(part, num_entries, f"{key}.")
            continue
        value, unit = (part["value"], unit_of(key)) if "value" in part else (num_entries(part), "entries")
        interval = (part["low"], part["high"]) if "low" in part else None
        yield Provenance(key=key, value=value, unit=unit, kind=part["kind"], source=part["source"], interval=interval)
