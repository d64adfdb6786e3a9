"""Rows of measured times as tables of calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from simfrontier.accuracy import KINDS, harnesses_of, named, shipped_harnesses, shown_fault
from simfrontier.collectives import CallTable, MeasuredPoint
from simfrontier.errors import InputError, nearest
from simfrontier.machine import Machine, catalog, is_machine, machine_named
from simfrontier.measured import CallRow, Setup, call_faults
from simfrontier.report import counted


@contextmanager
def faults_of(files: Sequence[Path]) -> Iterator[None]:
    """Add the names of the files to an error about the rows of all of them."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{', '.join(map(str, files))}: {error}") from None


def of_schedules(rows: Sequence[CallRow]) -> tuple[list[CallRow], list[str]]:
    """The rows of collectives that schedules have, and what is to be said of the others. Raises InputError where no row
    is left."""
    kept = [row for row in rows if row.collective in KINDS]
    others = Counter(row.collective for row in rows if row.collective not in KINDS)
    if rows and not kept:
        raise InputError(f"{', '.join(others)}: no schedule has one; allowed: {', '.join(KINDS)}")
    return kept, [
        f"Left out: {counted(number, 'row')}: {kind}, which no schedule has." for kind, number in others.items()
    ]


def named_rows(rows: Sequence[CallRow], setup: Setup) -> list[CallRow]:
    """The rows of the library and the machine that are named. Raises InputError where none is and there are several."""
    if not rows:
        return []
    (library,) = named("library", [row.library for row in rows], [setup.library] if setup.library else [])
    of_library = [row for row in rows if row.library == library]
    (machine,) = named("machine", [row.machine for row in of_library], [setup.machine] if setup.machine else [])
    return [row for row in of_library if row.machine == machine]


def without_faults(rows: Sequence[CallRow]) -> tuple[list[CallRow], list[str]]:
    """The rows that are no known pathologies of a machine or a library, and what is to be said of those that are: a
    fault that is known covers them, and their times show it.

    Raises InputError where no row is left.
    """
    faults = call_faults()
    reasons = [shown_fault(row, faults) for row in rows]
    counts = Counter(reason for reason in reasons if reason is not None)
    kept = [row for row, reason in zip(rows, reasons, strict=True) if reason is None]
    if rows and not kept:
        raise InputError(f"all {counted(len(rows), 'row')} are of known pathologies: {next(iter(counts))}")
    return kept, [f"Left out: {counted(number, 'row')}: {reason}." for reason, number in counts.items()]


def program_words(rows: Sequence[CallRow]) -> list[str]:
    """That times hold work of the program that measured, where it is known; nothing where it is not."""
    known = {one.name: one for row in rows for one in harnesses_of(row, shipped_harnesses())}
    if not known:
        return []
    titles = "; ".join(dict.fromkeys(one.title for one in known.values()))
    return [
        f"Warning: the times hold the measuring program’s own work ({titles}); a simulation would take them as bare "
        "calls. A fit (--fit) tells the two apart."
    ]


def tables_of(rows: Sequence[CallRow]) -> list[CallTable]:
    """A table of one point for every row; those of a group are to be merged.

    Ranks of which a row does not say what they are on fill one node after another. Raises InputError for machines that
    are not known.
    """
    return [_table(row, _machine(row.machine)) for row in rows]


def _machine(name: str) -> Machine:
    if not is_machine(name):
        raise InputError(f"no model of machine {name!r}; {nearest(name, catalog())}")
    return machine_named(name)


def _table(row: CallRow, machine: Machine) -> CallTable:
    nodes = row.nodes or -(-row.devices // machine.devices_per_node)
    return CallTable(
        kind=KINDS[row.collective],
        ranks=row.devices,
        nodes=nodes,
        packages=row.packages or -(-row.devices // machine.devices_per_package),
        points=(MeasuredPoint(bytes=row.num_bytes, seconds=row.seconds),),
    )
