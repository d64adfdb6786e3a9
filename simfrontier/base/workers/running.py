"""A scheduler that others started, with its workers."""

from __future__ import annotations

from typing import Any, Final

from simfrontier.base.errors import InputError
from simfrontier.base.version import __version__

CONNECT_S: Final = 5.0
EXAMPLE: Final = "allowed: the address that `dask scheduler` prints, e.g. tcp://10.0.0.1:8786"


def connected(address: str) -> Any:
    """Return a client of a running scheduler. Raises InputError where none answers, or its workers cannot run
    simfrontier's calls."""
    import distributed

    dask: Any = distributed
    try:
        client = dask.Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, TimeoutError):
        raise _refused(f"no scheduler answers at {address} within {CONNECT_S:g} s; {EXAMPLE}") from None
    except (ValueError, TypeError):
        raise _refused(f"got {address!r}; {EXAMPLE}") from None
    try:
        _check(client, address)
    except BaseException:
        client.close()
        raise
    return client


def _check(client: Any, address: str) -> None:
    """Raise InputError unless there are workers, each of one thread, with the versions of this process."""
    needed = f"allowed: workers of one thread (`dask worker {address} --nthreads 1 --nworkers N`)"
    threads: dict[str, int] = client.nthreads()
    if not threads:
        raise _refused(f"the scheduler at {address} has no workers; {needed}")
    for worker, count in threads.items():
        if count != 1:
            raise _refused(f"the worker at {worker} has {count} threads; {needed}")
    for worker, versions in client.get_versions(packages=["simfrontier"])["workers"].items():
        version = versions["packages"].get("simfrontier")
        if version != __version__:
            raise _refused(
                f"the worker at {worker} has simfrontier {version}, this process {__version__}; allowed: the same "
                "version everywhere"
            )


def _refused(what: str) -> InputError:
    return InputError(what, where="--scheduler")
