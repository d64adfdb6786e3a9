"""Tables of the names that scenarios and functions of the Python API take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simfrontier.inputs.scenario import Kind, named

if TYPE_CHECKING:
    import pandas as pd


def models() -> pd.DataFrame:
    """Return the models that are known by name, as `simfrontier list models`.

    Returns:
        A row per model with `name`, `description` (with its source), `parameters`, `active_parameters` (those that a
            token uses, fewer in a mixture of experts), `layers`, and `hidden`, the width (empty where it has none).

    Example:
        >>> import simfrontier as sf
        >>> sf.models().query("7e9 < parameters < 9e9")
    """
    return _table("models")


def machines() -> pd.DataFrame:
    """Return the machines that are known by name, as `simfrontier list machines`.

    Returns:
        A row per machine with `name`, `description`, `nodes`, `devices_per_node`, `device` (GPU, or GCD: half of an
            MI250X), `device_memory_bytes`, and `device_flops_per_s`, the peak rate of 16-bit matrix products.
    """
    return _table("machines")


def plans() -> pd.DataFrame:
    """Return the families of plans, as `simfrontier list plans`: the names that the argument `plans` takes.

    Returns:
        A row per family with `name` and `description`: what it shards, and the paper or library that it is of. The
            options of a family are keys: `sf.keys()`.
    """
    return _table("plans")


def keys() -> pd.DataFrame:
    """Return the keys of a scenario, as `simfrontier list keys`: what the argument `settings` takes.

    Returns:
        A row per key with its dotted `name`, `description`, the values `allowed`, its `default`, and for options of
            plans the `families` that have it.

    Example:
        >>> import simfrontier as sf
        >>> keys = sf.keys()
        >>> keys[keys.name.str.startswith("training.")]
    """
    return _table("keys")


def _table(kind: Kind) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(named(kind))
