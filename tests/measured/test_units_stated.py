"""Times in another unit than seconds are found by their neighbours; real anomalies are not taken for them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from simfrontier.errors import InputError
from simfrontier.measured import CallRow, load_tables
from simfrontier.measured.place import RowPlace
from simfrontier.measured.units_stated import MIXED, excess, refuse_other_units
from tests.measured.tables import shipped
from tests.rows import MIB, call


def row(num_bytes: int, seconds: float, line: int = 0, devices: int = 8) -> CallRow:
    return call(seconds, devices, num_bytes, place=RowPlace("mine.csv", line))


def refusal(rows: list[CallRow]) -> str:
    with pytest.raises(InputError) as caught:
        refuse_other_units(rows)
    return str(caught.value)


def test_bytes_and_devices_explain_a_longer_time_in_proportion() -> None:
    # 64 ms against 1 ms is 64 times; 4 times the bytes and 8 times the devices explain 32 of them
    assert excess(row(4 * MIB, 0.064, devices=64), row(MIB, 0.001)) == pytest.approx(2.0)
    # fewer bytes and devices explain nothing
    assert excess(row(MIB, 0.064), row(4 * MIB, 0.001, devices=64)) == pytest.approx(64.0)


def test_microseconds_among_seconds_are_refused_with_both_lines() -> None:
    rows = [row(MIB, 0.000151, 2), row(2 * MIB, 160.0, 3), row(4 * MIB, 0.000172, 4)]
    assert refusal(rows) == (
        "mine.csv line 3: 2097152 bytes among 8 took 160 s, but 1048576 bytes among 8 took 0.000151 s in line 2: "
        "looks like microseconds, allowed: seconds in every row"
    )


def test_milliseconds_among_seconds_are_refused() -> None:
    rows = [row(MIB, 0.000151, 2), row(2 * MIB, 0.16, 3)]
    assert refusal(rows) == (
        "mine.csv line 3: 2097152 bytes among 8 took 0.16 s, but 1048576 bytes among 8 took 0.000151 s in line 2: "
        "looks like milliseconds, allowed: seconds in every row"
    )


def test_a_number_of_devices_all_in_microseconds_is_refused() -> None:
    rows = [row(MIB, 0.000151, 2), row(2 * MIB, 0.00016, 3), row(MIB, 317.0, 4, 16), row(2 * MIB, 391.0, 5, 16)]
    assert "line 4: 1048576 bytes among 16 took 317 s, but" in refusal(rows)


def test_a_whole_table_in_microseconds_is_refused() -> None:
    assert refusal([row(MIB, 151.0, 2), row(2 * MIB, 160.0, 3)]) == (
        "mine.csv line 2: 1048576 bytes among 8 took 151 s: looks like microseconds, allowed: seconds in every row"
    )


def test_a_stall_of_a_hundred_times_is_a_measurement() -> None:
    refuse_other_units([row(MIB, 0.003, 2), row(2 * MIB, 0.3, 3), row(4 * MIB, 0.003, 4)])


def test_a_slow_network_is_a_measurement() -> None:
    refuse_other_units([row(64 * MIB, 20.0, 2), row(128 * MIB, 40.0, 3)])


@pytest.mark.parametrize("factor", [1e3, 1e6])
@given(data=st.data())
def test_any_shipped_table_is_refused_with_some_rows_in_another_unit(factor: float, data: st.DataObject) -> None:
    """Any one row of a series with neighbours at half or twice its bytes, anomalies that are too fast excepted."""
    rows = data.draw(st.sampled_from(shipped_series()))
    number = data.draw(st.integers(0, len(rows) - 1))
    changed = [
        row(each.num_bytes, each.seconds * (factor if line == number else 1.0), line, each.devices)
        for line, each in enumerate(rows)
    ]
    assert f"mine.csv line {number}: " in refusal(changed)


def shipped_series() -> list[list[CallRow]]:
    """RCCL and NCCL of 2 MiB and more by number of devices: sizes in steps of two."""
    known: dict[tuple[object, ...], list[CallRow]] = {}
    for each in shipped("rccl_frontier", CallRow):
        if each.num_bytes > MIB:
            known.setdefault((each.collective, each.devices), []).append(each)
    return list(known.values())


def test_the_wildest_step_of_the_shipped_tables_is_far_from_refused() -> None:
    """1 MiB at 1,024 GCDs took 0.158022 s, 2 MiB 0.00329 s: 48 times."""
    worst = max(
        excess(b, a) if b.seconds > a.seconds else excess(a, b)
        for rows in (shipped(table.name, CallRow) for table in load_tables() if table.form == "calls")
        for a in rows
        for b in rows
        if (a.machine, a.collective, a.library, a.devices) == (b.machine, b.collective, b.library, b.devices)
        and a.num_bytes < b.num_bytes <= 2 * a.num_bytes
    )
    assert worst == pytest.approx(0.158022 / 0.00329)
    assert worst < MIXED / 8
