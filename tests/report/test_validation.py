"""The page of a validation: its sections, charts that are data, names that are text, the same bytes again."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import pytest

from simfrontier.accuracy.bounds import ErrorBound
from simfrontier.accuracy.residual import Prediction, unknown_name
from simfrontier.accuracy.validation import Validation, validate
from simfrontier.measured import Pathology
from simfrontier.report.accuracy import validation_page
from simfrontier.report.figures.residuals import agreement_figure, errors_figure
from simfrontier.report.figures.series import series_figure
from simfrontier.report.findings.rows import charts_of, row_name, standing
from simfrontier.report.phrases import signed
from simfrontier.report.render import said
from tests.accuracy.standins import copy_row, held, models, rate_row, table, training
from tests.facts import says
from tests.report.test_page import Page
from tests.rows import MIB, call
from tests.some import some

ODD = Pathology(reason="a <stall>", bytes_from=MIB, bytes_to=MIB, devices_from=128)
LOOSE, TIGHT = (ErrorBound(table="one", series="a<b>", mean_abs=share, p90_abs=share) for share in (0.5, 0.01))


def made(*bounds: ErrorBound, most_flops_per_s: float = 60e12) -> Validation:
    """Two sizes on three numbers of devices, an odd one, one of an unknown library, and a rate of training."""
    rows = [call(1e-3 * devices * size, devices, size * MIB) for devices in (16, 64, 128) for size in (1, 4)]
    tables = [table([*rows, call(library="<mpi>")], pathologies=(ODD,)), table([training()], name="two")]
    return validate(tables, *models(1.1, lambda row: row in rows[:2], most_flops_per_s), bounds)


BARE = validate([table([call(), call(devices=8)], citation="")], *models())
CASES = {"held": made(LOOSE), "missed": made(TIGHT, most_flops_per_s=40e12), "bare": BARE}
SECTIONS = ["headline", "bounds", "tables", "agreement", "errors", "sizes", "worst", "training", "pathologies"]
SECTIONS += ["unknown", "sources", "reading"]
LACKING = {"bare": {"bounds", "training", "pathologies", "unknown", "sources"}}


@pytest.mark.parametrize("case", CASES)
def test_the_page_has_its_sections_and_loads_nothing(case: str) -> None:
    read = Page(validation_page(CASES[case]))
    assert [name for name in SECTIONS if name in read.ids] == [
        name for name in SECTIONS if name not in LACKING.get(case, set())
    ]
    assert sorted(read.ids) == sorted(set(read.ids))
    assert all(target.startswith(("#", "data:")) for target in read.loaded)
    done = CASES[case]
    for sentence in (*said("validate", "lead", done), *said("validate", "findings", done)):
        assert sentence in read.words


@pytest.mark.parametrize("case", CASES)
def test_charts_are_valid_and_their_axes_named(case: str) -> None:
    from plotly.graph_objects import Figure

    for variants in some(map(json.loads, Page(validation_page(CASES[case])).data.values())):
        for figure in variants.values():
            Figure(figure)
            layout = figure["layout"]
            assert all(layout[name]["title"]["text"] for name in layout if re.match("[xy]axis", name))


@pytest.mark.parametrize("case", CASES)
def test_what_there_is_no_number_for_is_not_seen_as_one(case: str) -> None:
    read = Page(validation_page(CASES[case]))
    assert re.findall(r"\b(?:nan|NaN|inf|Infinity|None|undefined)\b", read.words) == []


def test_the_same_tables_give_the_same_page() -> None:
    assert validation_page(made(LOOSE)) == validation_page(made(LOOSE))


def test_the_page_says_which_scipy_fitted() -> None:
    assert "scipy" in Page(validation_page(BARE)).words


def test_names_of_the_tables_are_text_and_never_markup() -> None:
    page = validation_page(CASES["held"])
    words = Page(page).words
    assert "by <hand>" in words and "a<b>" in words and "a <stall>" in words and "20B <GPT>" in words
    assert "<stall>" not in page.replace("\\u003cstall", "") and "<GPT>" not in page


def test_the_lead_is_of_what_is_averaged_and_no_fit_had_seen() -> None:
    """Of 8 rows one is odd, one of an unknown library, one a rate, two fitted: 3 are left, each 10 % off."""
    found = CASES["held"]
    assert found.errors is not None and found.is_unseen
    assert (found.errors.count, found.num_tables) == (3, 1)
    assert found.errors.mean_abs == pytest.approx(0.1)
    assert says(lead(CASES["held"]), "3 measured times", "1 table", "10.0\u00a0%", "10.0\u00a0%")
    [one] = [validate([table([call()])], *models())]
    assert says(lead(one), "1 measured time", "1 table", "10.0\u00a0%", "inside the 90 % interval")
    many = validate([table([call(1e-3, 16, size) for size in range(1, 12)])], *models(1.3))
    assert says(lead(many), 11, "30.0\u00a0%", "within 30.0\u00a0%", "0.0\u00a0%", "inside")
    fitted = validate([table([call()])], *models(fitted=lambda row: True))
    assert not fitted.is_unseen
    nothing = validate([table([call(library="mpi")])], *models())
    assert nothing.errors is None and says(lead(nothing), "1 measurement", "1 table")


def lead(done: Validation) -> str:
    [sentence] = said("validate", "lead", done)
    return sentence


def test_the_lead_counts_tables_of_the_rows_it_speaks_of() -> None:
    """Two tables of rows that are averaged; of one, the parameters were fitted to all."""
    tables = [table([call(), call(devices=8)]), table([call(devices=32)], name="two")]
    mixed = validate(tables, *models(fitted=lambda row: row == tables[1].rows[0]))
    assert mixed.errors is not None and (mixed.errors.count, mixed.num_tables, mixed.is_unseen) == (2, 1, True)
    seen = validate(tables, *models(fitted=lambda row: True))
    found = seen
    assert found.errors is not None and (found.errors.count, found.num_tables, found.is_unseen) == (3, 2, False)
    assert "of 3 rows that the parameters were fitted to" in Page(validation_page(seen)).words


def test_findings_are_bounds_uses_the_farthest_and_what_is_left_out() -> None:
    found = CASES["held"]
    assert found.missed == () and [each.name for each in found.unbounded] == ["two"]
    assert [(why, len(rows)) for why, rows in found.commonest] == [
        ("no model of library '<mpi>'", 1)
    ]  # a rate has its bound
    assert {why: len(rows) for why, rows in found.pathologies.items()} == {"a <stall>": 1}
    assert [round(row.error or 0.0, 9) for row in found.worst] == [0.1] * 5
    good = said("validate", "findings", found)
    facts = (
        ("1 of 1 bounds hold", "two"),
        ("1 published rate", "83.3\u00a0%"),
        ("3 rows held", "10.0\u00a0%"),
        ("2 rows fitted", "10.0\u00a0%"),
        ("farthest", "+10.0\u00a0%"),
        ("1 row", "pathologies"),
        ("1 row", "<mpi>", 1),
    )
    assert len(good) == len(facts)
    for sentence, wanted in zip(good, facts, strict=True):
        assert says(sentence, *wanted), sentence


def test_what_is_missed_is_named_first() -> None:
    """A bound of 1 % where rows are 10 % off, and 50 TFLOPS published where 40 are the most."""
    found = CASES["missed"]
    [missed] = found.missed
    assert missed.errors is not None and missed.errors.mean_abs == pytest.approx(0.1)
    bound, rest, above, *_ = said("validate", "findings", found)
    assert says(bound, "one, a<b>", "10.0\u00a0%", "1.0\u00a0%", "10.0\u00a0%", "1.0\u00a0%")
    assert says(rest, "0 of 1 bounds hold")
    assert says(above, "20B <GPT>, zero3 on 384, frontier", "50.0 TFLOPS", "40.0 TFLOPS")


def test_lines_of_a_table_of_errors_begin_with_what_no_fit_had_seen() -> None:
    made_of = {summary.name: [words for words, _ in summary.lines] for summary in CASES["held"].summaries}
    assert made_of == {"one": ["held", "fitted"], "two": [""], "all tables": ["held", "fitted"]}


@pytest.mark.parametrize(("error", "message"), [(0.032, "+3.2 %"), (-0.1, "−10.0 %"), (-1e-5, "0.0 %"), (None, "–")])
def test_an_error_has_its_sign(error: float | None, message: str) -> None:
    assert signed(error).replace("\u00a0", " ") == message


# ── charts ──


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


def test_the_lines_of_25_per_cent_are_mirror_images() -> None:
    lines = [trace for trace in agreement_figure([held(1.0, 1.0)])["data"] if trace["name"] == "± 25 %"]
    assert [line["y"][0] / line["x"][0] for line in lines] == pytest.approx([1.25, 1 / 1.25])


def test_far_errors_are_counted_in_the_last_bars() -> None:
    rows = [held(1.0, 1 + error) for error in (0.02, 0.04, -0.02, 3.0, -0.9)]
    [bars] = errors_figure(rows)["data"]
    assert sorted(bars["x"])[::4] == [-60.0, 60.0] and bars["xbins"]["end"] > 60.0


def test_a_chart_has_a_line_a_band_and_errors_per_number_of_devices() -> None:
    [(name, rows)] = [each for each in charts_of(CASES["held"].of("one")).items() if "mpi" not in each[0]]
    assert name == "all-gather, rccl, frontier"
    drawn = series_figure(rows)["data"]
    assert [trace["name"] for trace in drawn if trace["showlegend"]] == ["16 devices", "64 devices", "128 devices"]
    below = [trace for trace in drawn if trace.get("yaxis") == "y2"]
    assert [value for trace in below for value in trace["y"]] == pytest.approx([10.0] * 6)
    odd = [trace for trace in drawn if str(trace.get("marker", {}).get("symbol")).endswith("-open")]
    assert [trace["x"] for trace in odd] == [[MIB], [MIB]] and "a &lt;stall&gt;" in odd[0]["hovertext"][0]
    band = next(trace for trace in drawn if trace.get("fill") == "toself")
    assert band["x"] == [MIB, 4 * MIB, 4 * MIB, MIB]
    assert band["y"] == pytest.approx([0.0176 * 1.2, 0.0704 * 1.2, 0.0704 / 1.2, 0.0176 / 1.2])


def test_errors_beyond_the_axis_are_drawn_at_its_edge() -> None:
    """Rows that count reach 10 %, so that the axis ends at 1.1 × 30 = 33 %."""
    drawn = series_figure([held(1.0, 1.1), held(1.0, 0.1, "pathology")])["data"]
    below = [value for trace in drawn if trace.get("yaxis") == "y2" for value in trace["y"]]
    assert below == pytest.approx([10.0, -33.0])


def test_without_a_prediction_there_is_no_axis_of_errors() -> None:
    figure = series_figure([held(1.0, None, "no model")])
    assert "yaxis2" not in figure["layout"] and not any("yaxis" in trace for trace in figure["data"])
    assert [trace["y"] for trace in figure["data"]] == [[1.0]]


def test_without_an_interval_there_is_no_band() -> None:
    bare = Prediction(value=1.0, low=math.nan, high=math.nan)
    rows = [replace(held(1.0, 1.0), row=call(1.0, 16, size), prediction=bare) for size in (MIB, 2 * MIB)]
    figure = series_figure(rows)
    assert not any("fill" in trace for trace in figure["data"])
    json.dumps(figure, allow_nan=False)


def test_a_single_prediction_is_a_dash_with_an_error_bar() -> None:
    """Predicted 1.1 s, from 1.1 / 1.2 to 1.1 · 1.2 s."""
    dash, *_ = series_figure([held(1.0, 1.1)])["data"]
    assert (dash["marker"]["symbol"], dash["x"], dash["y"]) == ("line-ew", [MIB], [1.1])
    assert dash["error_y"]["array"] == pytest.approx([1.1 * 0.2])
    assert dash["error_y"]["arrayminus"] == pytest.approx([1.1 - 1.1 / 1.2])


def test_a_series_without_predictions_says_so_in_its_name() -> None:
    rows = [held(1.0, 1.1, devices=16), held(1.0, None, "no model", devices=32)]
    names = {trace["name"] for trace in series_figure(rows)["data"]}
    assert names == {"16 devices", "32 devices (no model)"}


@pytest.mark.parametrize(
    ("name", "reason", "in_full"),
    [
        ("x", "no model of 'x'", "no model of 'x'; allowed: frontier, rccl"),
        ("rcl", "no model of 'rcl'; did you mean \"rccl\"?", "no model of 'rcl'; did you mean \"rccl\"?"),
    ],
)
def test_a_reason_is_said_without_the_list_of_what_is_allowed(name: str, reason: str, in_full: str) -> None:
    missing = unknown_name(f"no model of {name!r}", name, ("rccl", "frontier"))
    assert (missing.reason, str(missing)) == (reason, in_full)


# ── names ──


def test_a_call_is_named_with_the_program_that_adds_to_its_time() -> None:
    assert row_name(call(devices=1024)) == "all-gather, rccl, frontier, 1,024 devices, 1\u00a0MiB"
    known = replace(call(), source="axonn-ai/sc2025-pccl-reproducer@5a6353f data/x.out")
    assert standing(known).chart == "all-gather, rccl, frontier (sc2025-pccl-reproducer)"


def test_a_copy_is_named_by_its_benchmark_and_path() -> None:
    row = copy_row(num_bytes=4096)
    assert row_name(row) == "osu_bw, cray-mpich, lumi-g, in a node, 4 links, 0-1, 4\u00a0KiB"
    plain = replace(row, benchmark="kernel_copy", pair="median over all pairs of the class")
    assert row_name(plain).startswith("copy by kernels, cray-mpich, lumi-g, in a node, 4 links, median of pairs, ")


def test_a_product_stands_at_the_edge_of_a_cube_of_equal_work() -> None:
    """m n k = 8 × 64 × 512 = 64³."""
    row = rate_row(m=8, n=64, k=512, dtype="bf16")
    assert standing(row).size == pytest.approx(64.0)
    assert row_name(row) == "matrix products, frontier, bf16, typical, 8 × 64 × 512"
    assert standing(replace(row, m=None)).size == 0.0
