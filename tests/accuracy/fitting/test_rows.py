"""Which rows a fit is made to, and why the others are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simfrontier.accuracy.fitting.rows import choose
from simfrontier.accuracy.predictors.calls import predict_call
from simfrontier.accuracy.residual import NotCovered, Prediction
from simfrontier.errors import InputError
from simfrontier.measured import load_table
from simfrontier.measured.rows import CallRow
from tests.accuracy.fitting.rings import calls
from tests.measured.tables import shipped
from tests.rows import MIB

ROWS = calls((16, 32), (MIB, 4 * MIB), library="rccl")


def test_all_rows_of_one_library_on_one_machine_are_fitted_to() -> None:
    chosen = choose(ROWS, (), None, 0)
    assert (chosen.library, chosen.machines, chosen.rows, chosen.set_aside) == ("rccl", ("frontier",), tuple(ROWS), {})


def test_rows_are_set_aside_with_a_reason() -> None:
    other = [replace(ROWS[0], library="nccl"), replace(ROWS[0], machine="lumi-g")]
    cast = [replace(row, collective="broadcast") for row in ROWS]
    apart = [replace(ROWS[0], nodes=16), replace(ROWS[1], packages=16)]
    odd = [replace(ROWS[0], devices=12)]
    chosen = choose([*ROWS, *other, *cast, *apart, *odd], ("frontier",), "rccl", 2 * MIB)
    assert chosen.rows == (ROWS[1], ROWS[3])
    assert {str(missing): number for missing, number in chosen.set_aside.items()} == {
        "below 2,097,152 bytes (--min-bytes)": 2 + 2 + 1 + 1,  # of ROWS, broadcasts, apart, odd
        "of other libraries or machines": 2,
        "no model of 'broadcast'; allowed: all_gather, all_reduce, all_to_all, reduce_scatter": 2,
        "16 ranks on 2 nodes and 16 packages, where frontier has them on 2 and 8 (--packages)": 1,
    }


def test_devices_that_do_not_fill_nodes_are_set_aside() -> None:
    chosen = choose([*ROWS, replace(ROWS[0], devices=12)], (), None, 0)
    assert chosen.rows == tuple(ROWS)
    reason = "frontier: got 12 devices, allowed above one node: multiples of 8"
    assert chosen.set_aside == {NotCovered(reason=reason): 1}


def test_known_pathologies_are_set_aside() -> None:
    table = load_table("rccl_frontier")
    rows = shipped("rccl_frontier", CallRow)
    faults = [row for row in rows if table.pathology_of(row)]
    chosen = choose(rows, (), None, 0)
    assert faults and set(chosen.rows) == set(rows) - set(faults)
    assert sum(chosen.set_aside.values()) == len(faults)


def test_a_row_that_a_known_fault_covers_is_fitted_to_where_its_time_is_as_predicted() -> None:
    odd = replace(calls((128,), (MIB,), library="rccl")[0], seconds=0.009)  # 11 times the prediction
    made = predict_call(odd)
    assert isinstance(made, Prediction)
    good = replace(odd, seconds=made.value)
    chosen = choose([*ROWS, odd, good], (), None, 0)
    assert chosen.rows == (*ROWS, good)
    assert list(chosen.set_aside.values()) == [1]


def test_several_machines_may_be_fitted_to_together() -> None:
    rows = [*ROWS, replace(ROWS[0], machine="lumi-g"), replace(ROWS[0], machine="perlmutter")]
    chosen = choose(rows, ("lumi-g", "frontier"), None, 0)
    assert chosen.machines == ("lumi-g", "frontier")
    assert len(chosen.rows) == len(ROWS) + 1


@pytest.mark.parametrize(
    ("machines", "library", "message"),
    [
        ((), "rccl", "the rows are of several machines: frontier (4 rows), lumi-g (1 row); allowed: one of them, "),
        (
            ("frontier",),
            None,
            "the rows are of several libraries: rccl (5 rows), nccl (1 row); allowed: one of them, ",
        ),
        (("frontierr",), "rccl", "--machine: no rows of machine 'frontierr', did you mean \"frontier\"?"),
        ((), "gloo", "--library: no rows of library 'gloo', allowed: nccl, rccl"),
    ],
)
def test_what_is_to_be_fitted_to_must_be_said_where_there_are_several(
    machines: tuple[str, ...], library: str | None, message: str
) -> None:
    rows = [*ROWS, replace(ROWS[0], machine="lumi-g"), replace(ROWS[0], library="nccl")]
    with pytest.raises(InputError) as raised:
        choose(rows, machines, library, 0)
    assert str(raised.value).startswith(message)


def test_rows_of_which_none_can_be_fitted_to_are_refused() -> None:
    with pytest.raises(InputError) as raised:
        choose(ROWS, (), None, 1 << 40)
    assert str(raised.value) == "none of 4 rows can be fitted to: below 1,099,511,627,776 bytes (--min-bytes) (4)"
    with pytest.raises(InputError) as raised:
        choose([replace(row, machine="fronteer") for row in ROWS], (), None, 0)
    assert str(raised.value) == (
        "none of 4 rows can be fitted to: no model of machine 'fronteer'; did you mean \"frontier\"? (4)"
    )
