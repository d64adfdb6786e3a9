"""A cross-check of simulation and reality: everything that was compared, and what extras compare besides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from simfrontier.records import dataclass
from simfrontier.trace.comparison import Comparison
from simfrontier.trace.verdict import Outcome, Verdict


class AddedCheck(ABC):
    """What an extra found besides; its texts are for people, without markup."""

    @property
    @abstractmethod
    def fault(self) -> str:
        """What does not agree, as "the bytes of links"; empty where all does."""

    @property
    @abstractmethod
    def remark(self) -> str:
        """What an agreement lacks, as "2 of 14 limits of the emulated run"; empty where that is nothing."""

    @abstractmethod
    def sentences(self) -> Sequence[str]:
        """What was found."""

    @abstractmethod
    def cards(self) -> Sequence[tuple[str, str, str]]:
        """Key numbers of the page: the number, what it is, and a remark."""

    @abstractmethod
    def document(self) -> Mapping[str, Any]:
        """Its keys of --json."""

    @abstractmethod
    def sections(self) -> Mapping[str, tuple[str, str]]:
        """Sections of the page by their anchors: the short title, and the HTML, empty where there is nothing."""


@dataclass(frozen=True, kw_only=True)
class CrossCheck:
    """Everything that was compared: a comparison per plan, the verdict, the plans that only one side has, and what
    extras compared besides."""

    comparisons: tuple[Comparison, ...]
    verdict: Verdict
    only_sim: tuple[str, ...] = ()
    only_real: tuple[str, ...] = ()
    added: tuple[AddedCheck, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """The verdict on operations and times, and on what extras compared, which is judged however times are."""
        return "differ" if any(each.fault for each in self.added) else self.verdict.outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePaths:
    """Where the traces are: the real side's folder, or its one file, and the two files of every plan."""

    real: Path
    of_plan: Mapping[str, tuple[Path, Path]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedCheckReader:
    """A check of an extra, by its module `added_checks`: `read` takes the comparison of the operations and the traces'
    paths, and raises InputError for a file that cannot be read."""

    read: Callable[[CrossCheck, TracePaths], AddedCheck]
