"""What results depend on, as digests and versions; no times and no absolute paths."""

from __future__ import annotations

import json
import platform
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version

from simfrontier.base.version import __version__
from simfrontier.inputs.scenario import Scenario

LIBRARIES = ("numpy", "simpy", "plotly")


def scenario_digest(scenario: Scenario) -> str:
    """Digest of the scenario's document, with what was set on the command line, whatever its layout and order."""
    return _digest(scenario.document)


def inputs(scenario: Scenario) -> dict[str, str]:
    """Names and digests of what a result depends on: the scenario, the numbers of machine and library, and other files
    that the scenario names: another job's scenario, and tables of what differs."""
    return {
        "scenario_sha256": scenario_digest(scenario),
        "machine": scenario.machine.name,
        "machine_sha256": _digest([[p.key, p.value] for p in scenario.machine.provenance()]),
        "library": scenario.library.name,
        "library_sha256": _digest([[p.key, p.value] for p in scenario.library.provenance()]),
        **_stacks(scenario),
        **({} if scenario.beside is None else {"neighbour_sha256": scenario_digest(scenario.beside)}),
        **({f"spread_{number}_sha256": _digest(list(rows)) for number, rows in scenario.spread_tables.items()}),
    }


def _stacks(scenario: Scenario) -> dict[str, str]:
    """Names and digests of what the plans are run by."""
    families = {options.family for options in scenario.plans.values()}
    stacks = {stack.name: _digest(repr(stack)) for each in families if (stack := scenario.stack_of(each)) is not None}
    return {f"stack_{name}_sha256": digest for name, digest in sorted(stacks.items())}


def versions(*more: str) -> dict[str, str]:
    """Versions of simfrontier, Python and the libraries that results depend on: those of a study, and `more`."""
    return {
        "simfrontier": __version__,
        "python": platform.python_version(),
        **{name: _version(name) for name in (*LIBRARIES, *more)},
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _digest(value: object) -> str:
    return sha256(json.dumps(value, sort_keys=True, separators=(",", ":"), default=str).encode()).hexdigest()
