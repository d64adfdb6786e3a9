"""`simfrontier softmax`: what it says of a table of times worked by hand, its page, exit codes, and bad tables."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from simfrontier.interfaces.report.render import said
from simfrontier_extras.softmax.page import TEMPLATES, softmax_rates_page
from simfrontier_extras.softmax.rates import IN_MEMORY, bytes_per_element, limit_of, read_rates
from tests.facts import says
from tests.interfaces.report.test_page import Page
from tests.invoke import invoke, refusal

HEAD = "elements,algorithm,starts,median_s,least_s,bytes_moved,cpu,cache_bytes\n"
PASSES = {"two-pass": 3, "three-pass-recompute": 4, "three-pass-reload": 5}
# ns of an element. 32 KiB hold 8,192 floats: of 1,000 and 100,000 elements only the latter are larger than the cache.
IN_CACHE = (1000, "cached", (2.0, 2.5, 1.6))
FROM_MEMORY = (1000, "uncached", (3.0, 3.3, 3.0))
LARGE = (100_000, "uncached", (4.0, 5.0, 6.0))  # 12 / 4 = 3, 16 / 5 = 3.2, 20 / 6 = 3.33 GB/s: alike within 1.15
LARGER = (1_000_000, "uncached", (4.0, 4.8, 6.4))


def lines(*kinds: tuple[int, str, tuple[float, float, float]]) -> list[str]:
    return [
        f"{n},{name},{starts},{each * n / 1e9:.6g},{0.9 * each * n / 1e9:.6g},{4 * PASSES[name] * n},A CPU,32768\n"
        for n, starts, ns in kinds
        for name, each in zip(PASSES, ns, strict=True)
    ]


def table(tmp_path: Path, rows: list[str]) -> Path:
    path = tmp_path / "softmax.csv"
    path.write_text(HEAD + "".join(rows), encoding="utf-8")
    return path


def told(path: Path) -> str:
    found = read_rates(path)
    every = [
        text for name in ("lead", "findings", "reasons") for text in said("softmax", name, found, folder=TEMPLATES)
    ]
    return " ".join(every).replace("\u00a0", " ")


def test_counts_of_bytes() -> None:
    assert tuple(PASSES) == IN_MEMORY
    assert [limit_of(name) for name in IN_MEMORY] == pytest.approx([1, 4 / 3, 5 / 3])
    assert [bytes_per_element(name) for name in IN_MEMORY] == [(12, 16), (16, 20), (20, 24)]


def test_it_says_how_they_compare(tmp_path: Path) -> None:
    done = invoke("softmax", table(tmp_path, lines(LARGER, FROM_MEMORY, LARGE, IN_CACHE)))
    assert done.code == 0
    _, *rows = done.out.splitlines()[:5]
    lead, recompute, reload, *inside = done.out.replace("\u00a0", " ").splitlines()[5:]
    assert [[row.split()[0], *row.split()[-5:]] for row in rows] == [
        ["1,000", "2.000", "2.500", "1.600", "1.250", "0.800"],
        ["1,000", "3.000", "3.300", "3.000", "1.100", "1.000"],
        ["100,000", "4.000", "5.000", "6.000", "1.250", "1.500"],
        ["1,000,000", "4.000", "4.800", "6.400", "1.200", "1.600"],
    ]
    # medians of 1.25, 1.2 and of 1.5, 1.6
    assert says(
        lead, "100,000", "1,000,000", "32 KiB", "two passes are the fastest", "recompute", "1.23", "reload", "1.55"
    )
    # (1.225 - 1) / (1.333 - 1) = 67.5 %; (1.55 - 1) / (1.667 - 1) = 82.5 %
    assert says(recompute, "recompute", "1.20", "1,000,000", "1.25", "100,000", "1.33", "67.5 %")
    assert says(reload, "reload", "1.50", "100,000", "1.60", "1,000,000", "1.67", "82.5 %")
    assert says(inside[0], "no slower than recompute") and says(inside[1], "reload is faster") and len(inside) == 2


def test_the_page_and_its_table_are_written(tmp_path: Path) -> None:
    path = table(tmp_path, lines(IN_CACHE, LARGE, LARGER))
    assert invoke("softmax", path, "--out", tmp_path / "page").code == 0
    page = (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    assert page == softmax_rates_page(read_rates(path))
    for part in ("two passes are the fastest", "A CPU"):
        assert part in page
    assert "a row fills the last cache (32" in Page(page).data["fig-softmax-rates"]
    with (tmp_path / "page" / "results.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["elements"] for row in rows] == ["1000", "100000", "1000000"]
    assert float(rows[1]["three_pass_reload_ratio"]) == pytest.approx(1.5)


def test_reasons_follow_the_data(tmp_path: Path) -> None:
    assert "all three move bytes at about the same rate, 3 GB/s (two-pass) to" in told(table(tmp_path, lines(LARGE)))
    # 12 / 4 = 3, 16 / 5 = 3.2, 20 / 5 = 4 GB/s: rates fall with exponentials per pass, 2/3, 2/4, 1/5
    given = told(table(tmp_path, lines((100_000, "uncached", (4.0, 5.0, 5.0)))))
    assert "but rates differ: 3 GB/s (two-pass) to 4 GB/s (three-pass-reload)" in given
    assert "the more exponentials there are to a pass" in given
    given = told(table(tmp_path, lines(IN_CACHE, LARGE)))
    assert "Reload, which computes them once, takes 0.800 × the time of two passes there" in given
    assert "In the cache two passes take 50.0 % of their time out of it" in given


def test_exit_1_where_two_passes_are_not_the_fastest(tmp_path: Path) -> None:
    path = table(tmp_path, lines(LARGER, (100_000, "uncached", (4.0, 3.9, 6.0))))
    done = invoke("softmax", path, "--out", tmp_path / "page")
    assert done.code == 1
    assert "two passes are not the fastest of the three at every length" in done.out
    assert (tmp_path / "page" / "index.html").exists()


GOOD = lines(IN_CACHE, LARGE)


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([], "no rows below the line of columns"),
        (GOOD[:-1], "100,000 elements, uncached: no three-pass-reload; allowed: two-pass, three-pass-recompute"),
        (
            [*GOOD, GOOD[0].replace("2e-06", "3e-06")],
            " line 8: got two-pass of 1,000 elements, cached, twice; allowed: once",
        ),
        (
            [row.replace("reload", "relod") for row in GOOD],
            ' line 4: algorithm: got "three-pass-relod", allowed: "two-pass", ',
        ),
        (
            GOOD[:3],
            "got rows of up to 1,000 elements; allowed: an uncached one that the last cache cannot hold, of 8,193",
        ),
    ],
)
def test_bad_tables_are_refused_in_one_line(tmp_path: Path, rows: list[str], text: str) -> None:
    assert text in refusal("softmax", table(tmp_path, rows))
