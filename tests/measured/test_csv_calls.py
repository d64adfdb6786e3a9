"""Reading times of collectives from CSV: what is read, and one clear line for everything that is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from simfrontier.measured import CallRow, read_calls
from simfrontier.measured.place import NOWHERE, RowPlace
from simfrontier.measured.rows import CALL_KINDS
from tests.measured.tables import AGAIN, refused, write_calls

HEAD = "machine,collective,library,devices,bytes,time_s,source"
ONE = "frontier,all_gather,rccl,8,1048576,0.000151,lab"
TWO = "frontier,all_gather,rccl,8,2097152,0.00016,lab"
EXPECTED = "machine, collective, library, devices, bytes, time_s, source"


def table(folder: Path, *lines: str, end: str = "\n") -> Path:
    path = folder / "mine.csv"
    path.write_bytes((end.join(lines) + end).encode())
    return path


def refusal(path: Path) -> str:
    return refused(read_calls, path)


def test_rows_are_read_in_order_with_their_lines(tmp_path: Path) -> None:
    path = table(tmp_path, HEAD, ONE, "", TWO.replace("all_gather", "Allgather"))
    first = CallRow(
        machine="frontier",
        collective="all_gather",
        library="rccl",
        devices=8,
        num_bytes=1 << 20,
        seconds=0.000151,
        source="lab",
        place=RowPlace(str(path), 2),
    )
    assert read_calls(path) == (first, replace(first, num_bytes=1 << 21, seconds=0.00016, place=RowPlace(str(path), 4)))
    assert read_calls(path, "mine")[0].place == RowPlace("mine", 2)


def test_order_of_columns_others_beside_them_a_mark_and_ends_of_lines_do_not_matter(tmp_path: Path) -> None:
    lines = (
        "\ufeffnote,source,time_s,bytes,devices,library,collective,machine,nodes,packages",
        '"a, b",lab,1.51e-4,1048576,8,rccl,all_gather,frontier,2,8',
        "c,,2e-4,2097152,8,rccl,bcast,frontier,,",
    )
    (first, second) = read_calls(table(tmp_path, *lines, end="\r\n"), "mine.csv")
    assert (first.seconds, first.nodes, first.packages) == (0.000151, 2, 8)
    assert (second.collective, second.nodes, second.packages) == ("broadcast", None, None)
    assert second.source == "mine.csv"  # without a source of its own, the file is it


def test_repeated_measurements_are_kept(tmp_path: Path) -> None:
    again = ONE.replace("0.000151", "0.000152")
    assert [row.seconds for row in read_calls(table(tmp_path, HEAD, ONE, again))] == [0.000151, 0.000152]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([""], f"FILE: the file is empty, allowed: a line of columns ({EXPECTED}), then rows"),
        ([" , ,", ",,"], f"FILE: the file is empty, allowed: a line of columns ({EXPECTED}), then rows"),
        ([HEAD], "FILE: no rows below the line of columns, allowed: two or more"),
        (
            [HEAD.replace(",source", ""), "a"],
            "FILE line 1: missing columns: source; got: machine, collective, library, devices, bytes, time_s; "
            f"allowed: {EXPECTED}",
        ),
        (
            [HEAD.replace("collective", "Colective").replace("source", "from")],
            'FILE line 1: missing columns: collective, source; got "Colective", did you mean "collective"?',
        ),
        (
            [HEAD.replace(",", ";")],
            "FILE line 1: missing columns: machine, collective, library, devices, bytes, time_s, source; "
            "the cells are separated by semicolons, allowed: commas",
        ),
        ([HEAD + ",bytes"], 'FILE line 1: column "bytes" stands twice'),
        (
            ["# my table", HEAD, ONE],
            "FILE line 1: a comment, allowed: the line of columns and rows of values",
        ),
        ([HEAD, ONE, "# c", TWO], "FILE line 3: a comment, allowed: the line of columns and rows of values"),
        ([HEAD, ONE, TWO[:-4]], "FILE line 3: 6 values, allowed: 7, one for each column"),
        ([HEAD, ONE + ",x", TWO], "FILE line 2: 8 values, allowed: 7, one for each column"),
        ([HEAD, '"' + ONE, TWO], "FILE line 2: not CSV: unexpected end of data"),
        (
            [HEAD, ONE, TWO, ONE],
            f"FILE line 4: {AGAIN}",
        ),
        (
            [HEAD, ONE, ONE.replace("0.000151", "1.51e-4").replace("all_gather", "allgather")],
            f"FILE line 3: {AGAIN}",
        ),
        (
            [HEAD, ONE.replace("all_gather", "all_gathr")],
            'FILE line 2: collective: got "all_gathr"; did you mean "all_gather"?',
        ),
        ([HEAD, ONE.replace("rccl", " ")], 'FILE line 2: library: got "", allowed: some text'),
        ([HEAD, ONE.replace("frontier", "")], 'FILE line 2: machine: got "", allowed: some text'),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, lines: list[str], message: str) -> None:
    assert refusal(table(tmp_path, *lines)) == message


@pytest.mark.parametrize("column", ["time_us", "time_ms", "time (us)", "latency_us", "us", "Time_microseconds", "t_ms"])
def test_a_column_in_another_unit_is_refused(tmp_path: Path, column: str) -> None:
    message = f'FILE line 1: column "{column}": times are expected in seconds, in a column "time_s"'
    assert refusal(table(tmp_path, HEAD.replace("time_s", column), ONE, TWO)) == message
    assert refusal(table(tmp_path, f"{HEAD},{column}", f"{ONE},151", f"{TWO},160")) == message


@pytest.mark.parametrize("got", ["-0.1", "0", "0.0", "1e-999", "nan", "inf", "1e999", "", "151us", "1_0", "0,1", "٣"])
def test_a_time_that_is_none_is_refused_with_its_line(tmp_path: Path, got: str) -> None:
    row = ONE.replace("0.000151", f'"{got}"')
    message = f'FILE line 3: time_s: got "{got}", allowed: a number of seconds above 0, e.g. 0.000151'
    assert refusal(table(tmp_path, HEAD, TWO, row)) == message


@pytest.mark.parametrize("got", ["0", "-8", "8.0", "8.5", "eight", "", "1" * 19])
@pytest.mark.parametrize(("column", "least"), [("devices", 2), ("bytes", 1)])
def test_a_count_that_is_none_is_refused_with_its_line(tmp_path: Path, column: str, least: int, got: str) -> None:
    cells = ONE.split(",")
    cells[HEAD.split(",").index(column)] = got
    message = f'FILE line 2: {column}: got "{got}", allowed: a whole number of {least} or more'
    assert refusal(table(tmp_path, HEAD, ",".join(cells), TWO)) == message


def test_a_collective_of_one_device_is_refused(tmp_path: Path) -> None:
    message = 'FILE line 2: devices: got "1", allowed: a whole number of 2 or more'
    assert refusal(table(tmp_path, HEAD, ONE.replace(",8,", ",1,"), TWO)) == message


def test_a_whole_table_in_microseconds_is_refused(tmp_path: Path) -> None:
    assert refusal(table(tmp_path, HEAD, ONE.replace("0.000151", "151"), TWO.replace("0.00016", "160"))) == (
        "FILE line 2: 1048576 bytes among 8 took 151 s: looks like microseconds, allowed: seconds in every row"
    )


def test_a_file_that_is_no_text_or_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    assert refusal(path) == "FILE: cannot read this table: No such file or directory"
    path.write_bytes(HEAD.encode() + b"\n\xff\xfe")
    assert refusal(path) == "FILE: not UTF-8: byte 55 is 0xff"
    assert refusal(tmp_path) == "FILE: cannot read this table: Is a directory"


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=8).filter(
    lambda text: not text.startswith("#")
)


@st.composite
def measured(draw: st.DrawFn) -> list[CallRow]:
    """Rows that no law forbids: time a constant and bytes over a rate, within half and twice."""
    known: dict[tuple[int, int], CallRow] = {}
    kind, machine, library = draw(st.sampled_from(CALL_KINDS)), draw(TEXT), draw(TEXT)
    for number in range(draw(st.integers(2, 8))):
        devices, num_bytes = draw(st.integers(2, 4096)), draw(st.integers(1, 1 << 40))
        known[devices, num_bytes] = CallRow(
            machine=machine,
            collective=kind,
            library=library,
            devices=devices,
            num_bytes=num_bytes,
            seconds=(1e-5 + num_bytes / 5e10) * draw(st.floats(0.5, 2.0)),
            source=f"run {number}",
            place=NOWHERE,
        )
    return list(known.values())


@given(measured().filter(lambda rows: len(rows) > 1))
def test_rows_that_are_written_are_read_back(tmp_path_factory: pytest.TempPathFactory, rows: list[CallRow]) -> None:
    path = write_calls(tmp_path_factory.getbasetemp() / "written.csv", rows)
    assert [replace(row, place=NOWHERE) for row in read_calls(path)] == rows


def test_a_row_may_say_the_devices_of_its_groups(tmp_path: Path) -> None:
    rows = read_calls(
        table(tmp_path, HEAD + ",groups,read_off", ONE.replace(",8,", ",2,") + ",0-2 1-3,shares.nic", TWO + ",,")
    )
    assert [(row.groups, row.read_off) for row in rows] == [(((0, 2), (1, 3)), "shares.nic"), ((), "")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,2", 'groups: got "0", allowed: devices, e.g. 0-2 1-3'),
        ("0-2 1", 'groups: got "0-2 1", allowed: devices, e.g. 0-2 1-3'),
        ("0-2 2-3", 'groups: got "0-2 2-3", allowed: groups of one size, every device once'),
        ("0-1 2-3-4", 'groups: got "0-1 2-3-4", allowed: groups of one size, every device once'),
        ("0-1-2-3", "devices: got 2, allowed: as many as each group has"),
        ("0-99999", 'groups: got "0-99999", allowed: devices, e.g. 0-2 1-3'),
    ],
)
def test_wrong_groups_are_one_line(tmp_path: Path, text: str, message: str) -> None:
    head, one = HEAD + ",groups", ONE.replace(",8,", ",2,")
    line = f"{one},{text}" if "," not in text else f"{one},{text.split(',')[0]}"
    assert refusal(table(tmp_path, head, line, TWO + ",")) == f"FILE line 2: {message}"
