"""The page of a validation: its sentences are on it, and its points lie where the times are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simfrontier.answers.accuracy.predictors import predict_row, row_fitted
from simfrontier.answers.accuracy.validation import ErrorBound, Validation, validate
from simfrontier.inputs.measured import Pathology, load_table
from simfrontier.interfaces.report.measured import agreement_figure, validation_page
from simfrontier.interfaces.report.render import said
from tests.answers.accuracy.standins import models, table, training
from tests.interfaces.report.test_page import Page
from tests.rows import MIB, call

ODD = Pathology(reason="a <stall>", bytes_from=MIB, bytes_to=MIB, devices_from=128)
LOOSE, TIGHT = (ErrorBound(table="one", series="a<b>", mean_abs=share, p90_abs=share) for share in (0.5, 0.01))


def made(*bounds: ErrorBound, most_flops_per_s: float = 60e12) -> Validation:
    """Two sizes on three numbers of devices, an odd one, one of an unknown library, and a rate of training."""
    rows = [call(1e-3 * devices * size, devices, size * MIB) for devices in (16, 64, 128) for size in (1, 4)]
    tables = [table([*rows, call(library="<mpi>")], pathologies=(ODD,)), table([training()], name="two")]
    return validate(tables, *models(1.1, lambda row: row in rows[:2], most_flops_per_s), bounds)


BARE = validate([table([call(), call(devices=8)], citation="")], *models())
CASES = {"held": made(LOOSE), "missed": made(TIGHT, most_flops_per_s=40e12), "bare": BARE}


def test_points_lie_at_their_times_and_pathologies_are_a_trace_of_their_own() -> None:
    drawn = {
        trace["name"]: trace
        for trace in agreement_figure(CASES["held"].of("one"))["data"]
        if trace["mode"] == "markers"
    }
    assert {name: len(trace["x"]) for name, trace in drawn.items()} == {
        "fitted": 2,
        "held": 3,
        "known pathology, not averaged": 1,
    }
    fitted = drawn["fitted"]
    assert fitted["y"] == [0.016, 0.064] and fitted["x"] == pytest.approx([0.0176, 0.0704])
    assert drawn["known pathology, not averaged"]["marker"]["symbol"].endswith("-open")


@pytest.mark.parametrize("case", CASES)
def test_the_sentences_of_a_validation_are_on_its_page(case: str) -> None:
    done = CASES[case]
    words = Page(validation_page(done)).words
    for sentence in (*said("validate", "lead", done), *said("validate", "findings", done)):
        assert sentence in words


def test_tables_have_their_titles_and_steps_their_classes() -> None:
    """Two tables with one title have their names instead."""
    shipped = load_table("kernel_classes")
    done = validate([shipped, table([call()], name="mine")], predict_row, row_fitted)
    words = Page(validation_page(done)).words
    assert "AxoNN's 20B step by class of kernels" in words and "frontier-axonn-20b, all-gather" in words
    twice = Validation(tables=(replace(shipped, name="a"), replace(shipped, name="b")), rows=())
    assert (twice.titles["a"], twice.titles["b"], done.titles["kernel_classes"]) == ("a", "b", shipped.title)
