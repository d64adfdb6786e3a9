"""Where calls are worked on."""

from __future__ import annotations

from simfrontier.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """Processes of this machine, each for one call at a time; with one of them this process does all calls itself."""

    jobs: int = 1


Place = Local
