"""Scenarios that are shipped with simfrontier: in the folder `scenarios` of the repository or, installed from a wheel,
of the package."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).parents[2]
FOLDER: Final = next(filter(Path.is_dir, (_PACKAGE / "scenarios", _PACKAGE.parent / "scenarios")), _PACKAGE)


def shipped(kind: str = "") -> dict[str, Path]:
    """Return the files of the shipped scenarios by name, such as `frontier-20b`; of `kind` "studies" the studies."""
    return {path.stem: path for path in sorted(Path(FOLDER, kind).glob("*.toml"))}
