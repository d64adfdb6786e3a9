"""Cross-check of simulated with real traces: of two files, or of the files with equal names in two folders, with
additional checks from extra packages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from simfrontier.base.errors import InputError
from simfrontier.base.extras import added
from simfrontier.core.trace.comparison import Comparison, compare
from simfrontier.core.trace.perfetto import read_perfetto
from simfrontier.core.trace.table import SIMULATED
from simfrontier.core.trace.verdict import Outcome, Verdict, judge

PREFIX: Final = "trace-"
SUFFIX: Final = ".json"
Names = tuple[str, ...]


class AddedCheck(ABC):
    """Result of an additional check from an extra package; its texts are for display, without markup."""

    @property
    @abstractmethod
    def fault(self) -> str:
        """Description of what disagrees, e.g. "the bytes of links"; empty if simulation and reality agree."""

    @property
    @abstractmethod
    def remark(self) -> str:
        """Restriction of the agreement, e.g. "2 of 14 limits of the emulated run"; empty if there is none."""

    @abstractmethod
    def sentences(self) -> Sequence[str]:
        """Return sentences that describe the result."""

    @abstractmethod
    def cards(self) -> Sequence[tuple[str, str, str]]:
        """Return key figures for the report page, as (number, label, remark)."""

    @abstractmethod
    def document(self) -> Mapping[str, Any]:
        """Return the entries that the check adds to the output of --json."""

    @abstractmethod
    def sections(self) -> Mapping[str, tuple[str, str]]:
        """Return sections for the report page by anchor, as (short title, HTML); empty if there are none."""


@dataclass(frozen=True, kw_only=True)
class CrossCheck:
    """Result of a cross-check: one comparison for each plan, the verdict, the plans for which only one of the two
    traces exists, and the results of additional checks."""

    comparisons: tuple[Comparison, ...]
    verdict: Verdict
    only_sim: tuple[str, ...] = ()
    only_real: tuple[str, ...] = ()
    added: tuple[AddedCheck, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """The verdict on operations and times; a fault found by an additional check overrides it, whatever the
        times."""
        return "differ" if any(each.fault for each in self.added) else self.verdict.outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePaths:
    """Paths of the traces: the folder (or the single file) of the real traces, and for every plan its simulated and its
    real trace file."""

    real: Path
    of_plan: Mapping[str, tuple[Path, Path]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedCheckReader:
    """Additional check of an extra package, registered in the package's module `added_checks`. `read` takes the
    comparison of the operations and the paths of the traces; it raises InputError for a file that cannot be read."""

    read: Callable[[CrossCheck, TracePaths], AddedCheck]


def crosscheck_of(sim: Path, real: Path, min_bytes: int, tolerance: float) -> CrossCheck:
    """Compare simulated with real traces. Raises InputError if there is nothing to compare, or if the digests
    differ."""
    for path in (sim, real):
        if not path.exists():
            raise InputError(
                f"no such file or folder; allowed: a trace (JSON), or a folder of {PREFIX}PLAN{SUFFIX}",
                where=str(path),
            )
    if sim.is_dir() != real.is_dir():
        folder, file = (sim, real) if sim.is_dir() else (real, sim)
        raise InputError(f"{folder} is a folder and {file} a file; allowed: two folders, or two traces")
    pairs, only_sim, only_real = _paired(sim, real) if sim.is_dir() else ({_plan(sim): (sim, real)}, (), ())
    comparisons = tuple(_compared(plan, *paths) for plan, paths in pairs.items())
    check = CrossCheck(
        comparisons=comparisons,
        verdict=judge(comparisons, min_bytes, tolerance),
        only_sim=only_sim,
        only_real=only_real,
    )
    paths = TracePaths(real=real, of_plan=pairs)
    return replace(check, added=tuple(each.read(check, paths) for each in added("added_checks", AddedCheckReader)))


def _paired(sim: Path, real: Path) -> tuple[dict[str, tuple[Path, Path]], Names, Names]:
    """Return the traces that exist in both folders, by plan, and the plans whose trace exists in only one of them."""
    sim_traces, real_traces = (
        {_plan(path): path for path in sorted(folder.glob(f"{PREFIX}*{SUFFIX}"))} for folder in (sim, real)
    )
    both = {plan: (path, real_traces[plan]) for plan, path in sim_traces.items() if plan in real_traces}
    if not both:
        there = "; ".join(
            f"{folder}: {', '.join(plans) or 'none'}" for folder, plans in ((sim, sim_traces), (real, real_traces))
        )
        raise InputError(f"no {PREFIX}PLAN{SUFFIX} is in both folders ({there}); allowed: files of the same names")
    return (
        both,
        tuple(plan for plan in sim_traces if plan not in real_traces),
        tuple(plan for plan in real_traces if plan not in sim_traces),
    )


def _plan(path: Path) -> str:
    return path.name.removeprefix(PREFIX).removesuffix(SUFFIX)


def _compared(plan: str, sim: Path, real: Path) -> Comparison:
    simulated, measured = read_perfetto(sim), read_perfetto(real)
    if simulated.notes.get("mode", SIMULATED) != SIMULATED:
        raise InputError("a real trace; allowed: the simulated one first, then the real one", where=str(sim))
    try:
        return compare(plan, simulated, measured)
    except InputError as error:
        raise (error if error.where else error.within(f"{sim}, {real}")) from None
