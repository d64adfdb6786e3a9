"""How often jobs are interrupted, by part: counts of published trainings, as TOML files with a source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from annotated_types import Ge, Gt, Le, MinLen

from simfrontier.base.errors import InputError, nearest
from simfrontier.base.io import Line, read_toml, typed
from simfrontier.base.limits import LARGEST_S

CATALOG: Final = Path(__file__).parent / "catalog"
DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A cause of interruptions, how many there were, and of what there are more in a larger job: packages (a GPU, an
    MI250X) or nodes. `broken`: the node must be repaired before it is used again."""

    name: Line
    interruptions: Annotated[float, Gt(0), Le(LARGEST_S)]
    of: Literal["package", "node"]
    broken: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """The interruptions of a training of so many `days` on so many packages and nodes, by part."""

    name: Line
    title: Line
    source: Line
    days: Annotated[float, Ge(1e-3), Le(LARGEST_S)]
    packages: Annotated[int, Ge(1)]
    nodes: Annotated[int, Ge(1)]
    parts: Annotated[tuple[Part, ...], MinLen(1)]

    def per_s(self, part: Part, num_packages: int, num_nodes: int) -> float:
        """Interruptions per second by one part, of a job on so many packages and nodes."""
        there, here = (self.packages, num_packages) if part.of == "package" else (self.nodes, num_nodes)
        return part.interruptions / (self.days * DAY_S) * here / there

    def rate_per_s(self, num_packages: int, num_nodes: int, broken: bool = False) -> float:
        """Interruptions per second by all parts, or by those alone that leave a node `broken`."""
        return sum(self.per_s(part, num_packages, num_nodes) for part in self.parts if part.broken or not broken)


def names_of_failures() -> tuple[str, ...]:
    """Names of the catalog."""
    return tuple(sorted(path.stem for path in CATALOG.glob("*.toml")))


def load_failures(name_or_path: str, folder: Path | None = None) -> Failures:
    """The failures of that name in the catalog, or of the TOML file at that path (anything with a "/" or ".toml"),
    looked for beside `folder`. Raises InputError."""
    if "/" in name_or_path or name_or_path.endswith(".toml"):
        path = Path(name_or_path) if folder is None else folder / name_or_path
        return typed(read_toml(path, "file of failures"), Failures, str(path))
    names = names_of_failures()
    if name_or_path not in names:
        raise InputError(
            f'failures "{name_or_path}" are not in the catalog; {nearest(name_or_path, names)} '
            "(a file of your own: give its path, ending in .toml)"
        )
    path = CATALOG / f"{name_or_path}.toml"
    return typed(read_toml(path, "file of failures"), Failures, path.name)
