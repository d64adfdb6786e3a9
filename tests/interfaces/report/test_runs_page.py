"""The page of training runs: its figures of the whole set are those of the accuracy answer, its numbers those of the
runs, and sources are links."""

from __future__ import annotations

import json
import re
from statistics import fmean, median

import pytest

from simfrontier.answers.accuracy import Errors
from simfrontier.answers.accuracy.published_runs.causes import causes_of, load_causes
from simfrontier.answers.accuracy.published_runs.table import address_of
from simfrontier.interfaces.report.phrases import percent, signed
from simfrontier.interfaces.report.runs_page import FACETS, facts_of, runs_page
from tests.answers.accuracy.published_runs.rows import written
from tests.interfaces.report.test_page import Page


@pytest.fixture(scope="module")
def text() -> str:
    return runs_page(written(), documentation=True)


def said(errors: Errors) -> str:
    shares = (percent(errors.mean_abs), percent(errors.median_abs), signed(errors.bias), percent(errors.covered))
    return " ".join((f"{errors.count:,}", *shares, f"± {percent(errors.width)}"))


def test_figures_are_those_of_the_answer(text: str) -> None:
    """Of all runs, and of every machine, kind of model, stack, precision, size and source."""
    done, page = written(), Page(re.sub('<script type="application/json".*?</script>', "", text))
    assert done.overall is not None
    mean, inside = percent(done.overall.mean_abs), percent(done.overall.covered)
    for words in (f"{done.overall.count} runs of {len(done.rows)} are predicted {mean} off", f"{inside} lie inside"):
        assert plain(words) in plain(page.section("headline"))
    groups = plain(page.section("groups"))
    for facet in FACETS:
        for name, errors in done.by(facet).items():
            assert plain(f"{name} {said(errors)}") in groups


def plain(words: str) -> str:
    return words.replace("\u00a0", " ")


def test_the_numbers_of_its_script_give_the_same_errors(text: str) -> None:
    overall = written().overall
    assert overall is not None
    points = json.loads(text.split('id="points">')[1].split("</script>")[0])
    errors = [abs(point["error"]) for point in points]
    assert len(points) == overall.count == text.count('data-label="measured"')
    assert (fmean(errors), median(errors)) == pytest.approx((overall.mean_abs, overall.median_abs))
    assert fmean(point["covered"] for point in points) == pytest.approx(overall.covered)
    assert errors[0] == pytest.approx(abs(written().worst(1)[0].error or 0.0))


def test_it_loads_nothing_and_is_small(text: str) -> None:
    assert len(text.encode()) < 2e6
    assert not any(f'{which}="http' in text for which in ("src", "data")) and '<link rel="stylesheet' not in text


def test_a_run_that_is_far_off_says_why_or_that_it_is_not_known() -> None:
    far = [row for row in written().predicted if row.is_far]
    known = [row for row in far if causes_of(row.row)]
    assert 0 < len(known) < len(far) < len(written().predicted)
    for row in written().predicted:
        assert any(fact.startswith("why it is off") for fact in facts_of(row)) == row.is_far
    assert all(any(cause.found(row.row) is not None for row in far) for cause in load_causes())


@pytest.mark.parametrize(
    ("source", "address"),
    [
        ("a/b@0123abc docs/x.md line 5 (table 2)", "https://github.com/a/b/blob/0123abc/docs/x.md?plain=1#L5"),
        ("a/b@0123abc (v1.2) x/y.txt lines 5-7", "https://github.com/a/b/blob/0123abc/x/y.txt#L5-L7"),
        ("a/b@0123abc x/y/log_*.txt (median of 3)", "https://github.com/a/b/tree/0123abc/x/y"),
        ("a/b x/y.md@0123abc + issue 7", "https://github.com/a/b/blob/0123abc/x/y.md"),
        ("a/b pull request 7 (table)", "https://github.com/a/b/pull/7"),
        ("a/b issue 7", "https://github.com/a/b/issues/7"),
        ("a.com/blog/b (Oct 2023)", "https://a.com/blog/b"),
        ('README "of a job" (repository not known)', None),
    ],
)
def test_a_source_leads_to_its_commit_file_and_line(source: str, address: str | None) -> None:
    assert address_of(source) == address
