"""A scheduler that others started, with its workers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from simfrontier import __version__
from simfrontier.errors import InputError

CONNECT_S: Final = 5.0
OPTION: Final = "--scheduler"


class Running:
    """The client of a running scheduler. Its workers are not ended at the end."""

    def __init__(self, address: str) -> None:
        import distributed

        dask: Any = distributed
        try:
            self.client = dask.Client(address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, TimeoutError):
            raise InputError(
                f"no scheduler answers at {address} within {CONNECT_S:g} s; allowed: the address that `dask scheduler` "
                "prints, e.g. tcp://10.0.0.1:8786",
                where=OPTION,
            ) from None
        except (ValueError, TypeError):
            raise InputError(
                f"got {address!r}; allowed: the address that `dask scheduler` prints, e.g. tcp://10.0.0.1:8786",
                where=OPTION,
            ) from None
        try:
            self.num_workers = self._checked(address)
        except BaseException:
            self.close()
            raise

    @property
    def dashboard(self) -> str:
        return str(self.client.dashboard_link)

    def close(self) -> None:
        with suppress(Exception):
            self.client.close(timeout=2)

    def _checked(self, address: str) -> int:
        """How many workers there are. Raises InputError for those that cannot do our calls."""
        threads: dict[str, int] = self.client.nthreads()
        if not threads:
            raise InputError(
                f"the scheduler at {address} has no workers; allowed: one with workers (`dask worker {address} "
                "--nthreads 1 --nworkers N`)",
                where=OPTION,
            )
        several = next((each for each, count in threads.items() if count != 1), None)
        if several is not None:
            raise InputError(
                f"the worker at {several} has {threads[several]} threads; allowed: workers of one thread (`dask worker "
                f"{address} --nthreads 1 --nworkers N`)",
                where=OPTION,
            )
        versions = self.client.get_versions(packages=["simfrontier"])
        here = _facts(versions["client"]) | {"simfrontier": __version__}
        for who, there in [("scheduler", versions["scheduler"]), *versions["workers"].items()]:
            _refuse_other(who if who == "scheduler" else f"worker at {who}", _facts(there), here)
        return len(threads)


def _facts(versions: Mapping[str, Any]) -> dict[str, str | None]:
    """What has to be the same everywhere: of Python the minor version."""
    python = versions["host"]["python"].split(".")
    packages = versions["packages"]
    return {
        "simfrontier": packages.get("simfrontier"),
        "distributed": packages.get("distributed"),
        "Python": ".".join(python[:2]),
    }


def _refuse_other(who: str, there: Mapping[str, str | None], here: Mapping[str, str | None]) -> None:
    for name, version in here.items():
        if there[name] != version:
            has = f"has {name} {there[name]}" if there[name] else f"has no {name}"
            raise InputError(
                f"the {who} {has}, this process {name} {version}; allowed: the same version everywhere", where=OPTION
            )
