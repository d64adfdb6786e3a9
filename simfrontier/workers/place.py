"""Where calls are worked on."""

from __future__ import annotations

from simfrontier.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """`jobs` processes of this machine, each for one call at a time. With one of them this process does all calls
    itself, and Dask is not imported; `apart`: calls are left to another process even then. `dashboard`: Dask's pages
    are served at 127.0.0.1."""

    jobs: int = 1
    apart: bool = False
    dashboard: bool = False

    @property
    def is_here(self) -> bool:
        """Whether this process does the calls."""
        return self.jobs == 1 and not self.apart and not self.dashboard


Place = Local
