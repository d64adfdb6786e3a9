"""Packages that only the optional extras of pip install (`pip install 'simfrontier[sweep]'`)."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final, Literal

from simfrontier.base.errors import InputError

Extra = Literal["serve", "sweep", "real"]
PACKAGES: Final[dict[Extra, tuple[str, ...]]] = {
    "serve": ("starlette", "uvicorn"),
    "sweep": ("pyarrow", "optuna", "distributed", "dask_jobqueue", "bokeh"),
    "real": ("torch",),
}


def missing(extra: Extra) -> tuple[str, ...]:
    """Return the names of an extra's packages that are not installed."""
    return tuple(name.replace("_", "-") for name in PACKAGES[extra] if find_spec(name) is None)


def require(extra: Extra, where: str) -> None:
    """Raise InputError if a package of an extra is not installed; `where`: the command or option that needs it."""
    for name in missing(extra)[:1]:
        allowed = f"pip install 'simfrontier[{extra}]'"
        raise InputError(f"needs the package {name}, which is not installed; allowed: {allowed}", where=where)
