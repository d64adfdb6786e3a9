"""`simfrontier calibrate` on a CSV table: parameters, errors, page, JSON; and what cannot be fitted to, in one line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from simfrontier.collectives import load_calibration, load_library, write_calibration
from simfrontier.measured import CallRow
from tests.accuracy.fitting.rings import calls, timed
from tests.invoke import TOY, Ran, invoke, refusal
from tests.measured.tables import write_calls
from tests.report.test_page import Page
from tests.rows import MIB

SIZES = tuple(2**power * MIB for power in range(0, 10))


def made_up(devices: Iterable[int] = (8, 16, 32, 64), noise: float = 0.03) -> list[CallRow]:
    """Times that RCCL has by its file, but for a slower network."""
    rows = calls(devices, SIZES, library="rccl")
    return timed(rows, load_library("rccl"), {"shares.nic": 0.6}, noise, seed=11)


def fitted(folder: Path, rows: Sequence[CallRow], *options: str) -> Ran:
    done = invoke(
        "calibrate", write_calls(folder / "my.csv", rows), "--out", folder / "fit.toml", "--when", "today", *options
    )
    assert (done.code, done.err) == (0, ""), done
    return done


def test_a_table_is_fitted_to(tmp_path: Path) -> None:
    done = fitted(tmp_path, made_up())
    calibration = load_calibration(tmp_path / "fit.toml")
    low, high = calibration.intervals["shares.nic"]
    assert low <= 0.6 <= high < 0.7
    assert calibration.library["shares.nic"] == pytest.approx(0.6, rel=0.05)
    assert (calibration.where, calibration.title) == ("frontier", "fit of rccl on frontier")
    assert calibration.how == "simfrontier calibrate my.csv --out fit.toml"
    assert calibration.fit is not None and calibration.fit.left_out is not None
    assert calibration.fit.fitted.points == 40
    assert calibration.fit.fitted.mean_abs_error < 0.05 and calibration.fit.left_out.mean_abs_error < 0.1
    assert [place.devices for place in calibration.fit.places] == [8, 16, 32, 64]
    assert calibration.harness == {}  # no known program measured this
    (line,) = [line for line in done.out.splitlines() if line.strip().startswith("shares.nic")]
    assert f" {low:.4g} to {high:.4g} " in line
    assert done.out.endswith(
        f"Written: {tmp_path}/fit.toml; a scenario names it as library.calibration. Plots: {tmp_path}/fit.html\n"
    )


def test_a_scenario_takes_the_fitted_numbers(tmp_path: Path) -> None:
    fitted(tmp_path, made_up())
    settings = ("--set", "library.name=rccl", "--set", f"library.calibration={tmp_path / 'fit.toml'}")
    done = invoke("show", TOY, *settings)
    assert done.code == 0, done


def test_the_same_data_give_the_same_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        fitted(tmp_path / name, made_up())
    for file in ("fit.toml", "fit.html"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_the_page_has_charts_tables_and_loads_nothing(tmp_path: Path) -> None:
    fitted(tmp_path, made_up(), "--title", "<b>mine</b>", "--page", str(tmp_path / "plots.html"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fit.toml", "my.csv", "plots.html"]
    text = (tmp_path / "plots.html").read_text(encoding="utf-8")
    page = Page(text)
    assert [name for name in page.ids if not name.startswith("fig-") and name != "library"] == [
        "headline",
        "parameters",
        "agreement",
        "residuals",
        "places",
        "reading",
    ]
    assert all(target.startswith(("#", "data:")) for target in page.loaded)
    assert "<b>mine</b>" in page.words and "<b>mine</b>" not in text
    assert "shares.<wbr>nic" in text and "frontier, 64 devices, left out" in page.words
    figures = {name: json.loads(data) for name, data in page.data.items()}
    assert set(figures) == {"fig-agreement", "fig-residuals"}
    from plotly.graph_objects import Figure

    for variants in figures.values():
        (figure,) = variants.values()
        Figure(figure)
        points = {trace["name"]: len(trace["x"]) for trace in figure["data"] if trace["mode"] == "markers"}
        assert points == {"fitted": 40, "left out": 40}


def test_json_has_parameters_errors_and_every_point(tmp_path: Path) -> None:
    rows = [*made_up(), replace(made_up()[0], collective="broadcast")]
    document = json.loads(fitted(tmp_path, rows, "--json").out)
    assert (document["file"], document["page"]) == (str(tmp_path / "fit.toml"), str(tmp_path / "fit.html"))
    (share,) = [one for one in document["parameters"] if one["key"] == "shares.nic"]
    assert share["interval"][0] <= share["value"] <= share["interval"][1]
    assert share["file_value"] == load_library("rccl").link_shares["nic"]
    assert document["fit"]["fitted"]["points"] == len(document["rows"]) == 40
    first = document["rows"][0]
    assert first["fitted_s"] == pytest.approx(first["time_s"], rel=0.3)
    assert first["left_out_s"] == pytest.approx(first["time_s"], rel=0.5)
    ((reason, number),) = document["set_aside"].items()
    assert number == 1 and reason.startswith("no model of 'broadcast'; allowed: all_gather, ")


def test_a_file_named_twice_counts_once(tmp_path: Path) -> None:
    my = write_calls(tmp_path / "my.csv", made_up())
    done = invoke("calibrate", my, my, "--out", tmp_path / "fit.toml", "--when", "today")
    assert (done.code, done.err) == (0, "")
    record = load_calibration(tmp_path / "fit.toml").fit
    assert record is not None and record.fitted.points == 40


def test_numbers_fitted_as_one_are_both_written(tmp_path: Path) -> None:
    rows = [
        replace(row, seconds=row.seconds * factor)
        for row, factor in zip(
            timed(calls((8, 16, 32, 64), SIZES, "cray-mpich"), load_library("cray-mpich"), {"shares.nic": 0.6}),
            [0.98, 1.02] * 20,
            strict=True,
        )
    ]
    fitted(tmp_path, rows)
    calibration = load_calibration(tmp_path / "fit.toml")
    for one, other in (
        ("ring.hop_in_node_s", "ring.hop_between_nodes_s"),
        ("ring_ll.hop_in_node_s", "ring_ll.hop_between_nodes_s"),
    ):
        assert calibration.library[one] == calibration.library[other]
        assert calibration.intervals[one] == calibration.intervals[other]
    assert calibration.fit is not None and len(calibration.library) == calibration.fit.parameters + 3  # and model_sd


def test_one_device_count_has_no_cross_validation_and_says_so(tmp_path: Path) -> None:
    done = fitted(tmp_path, made_up((32,)))
    assert "All points are of one number of devices: nothing can be left out, so no cross-validation." in " ".join(
        done.out.split()
    )
    record = load_calibration(tmp_path / "fit.toml").fit
    assert record is not None and (record.left_out, record.places) == (None, ())
    page = Page((tmp_path / "fit.html").read_text(encoding="utf-8"))
    assert "nothing can be left out" in page.words


def test_parameters_that_the_data_do_not_show_are_listed_and_not_written(tmp_path: Path) -> None:
    rows = [row for row in made_up() if row.devices >= 16]  # rings between nodes do not feel the cap inside one
    done = fitted(tmp_path, rows)
    cap = "ring_caps.ranks_8_packages_4_bytes_per_s"
    calibration = load_calibration(tmp_path / "fit.toml")
    assert calibration.fit is not None and cap in calibration.fit.unseen and cap not in calibration.library
    (line,) = [line for line in done.out.splitlines() if line.strip().startswith(cap)]
    assert "not shown by the data" in line
    assert "Not shown by the data, kept as in the file and not written: " in " ".join(done.out.split())


def test_parameters_that_the_data_hardly_show_are_named(tmp_path: Path) -> None:
    """Start-ups hide behind large messages."""
    done = fitted(tmp_path, made_up((16, 32, 64)), "--min-bytes", "256MiB")
    assert "Hardly shown by the data, see the interval: ring.hop_between_nodes_s." in " ".join(done.out.split())


def test_one_of_several_machines_is_fitted_to_by_name(tmp_path: Path) -> None:
    there = [replace(row, machine="lumi-g") for row in made_up((16,))]
    done = fitted(tmp_path, [*made_up(), *there], "--machine", "frontier")
    assert "Not fitted to: 10 rows: of other libraries or machines." in done.out
    fitted(tmp_path, [*made_up(), *there], "--machine", "frontier,lumi-g")
    record = load_calibration(tmp_path / "fit.toml").fit
    assert record is not None and (record.machines, record.fitted.points) == (("frontier", "lumi-g"), 50)


def test_small_messages_may_be_left_to_others(tmp_path: Path) -> None:
    done = fitted(tmp_path, made_up(), "--min-bytes", "4MiB")
    assert "Not fitted to: 8 rows: below 4,194,304 bytes (--min-bytes)." in done.out


def test_logs_are_fitted_to_where_it_is_said(tmp_path: Path) -> None:
    """What a calibration has as tables is fitted to with --fit."""
    rows = write_calls(tmp_path / "my.csv", made_up())
    assert invoke("calibrate", rows, "--tables", "--out", tmp_path / "tables.toml").code == 0
    options = ("--fit", "--machine", "frontier", "--library", "rccl")
    done = invoke("calibrate", tmp_path / "tables.toml", *options, "--out", tmp_path / "fit.toml")
    assert done.code == 0, done
    calibration = load_calibration(tmp_path / "fit.toml")
    assert calibration.fit is not None and calibration.fit.fitted.points == 40 and calibration.calls == ()


def test_a_fit_is_kept_beside_tables(tmp_path: Path) -> None:
    fitted(tmp_path, made_up())
    tables = write_calls(tmp_path / "other.csv", made_up((8,)))
    assert invoke("calibrate", tables, "--tables", "--out", tmp_path / "tables.toml").code == 0
    both = (tmp_path / "fit.toml", tmp_path / "tables.toml")
    assert invoke("calibrate", *both, "--out", tmp_path / "both.toml").code == 0
    one, merged = load_calibration(both[0]), load_calibration(tmp_path / "both.toml")
    assert (merged.library, merged.intervals, merged.fit) == (one.library, one.intervals, one.fit)
    assert len(merged.calls) == 1
    assert one.fit is not None
    write_calibration(replace(one, fit=replace(one.fit, parameters=3)), tmp_path / "third.toml")
    message = refusal("calibrate", both[0], tmp_path / "third.toml", "--out", tmp_path / "all.toml")
    assert message == (
        f"{tmp_path}/third.toml: fit: another one than in {both[0]}, allowed: one fit; fit to all data at once"
    )


# ── what is wrong ──


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "{file}: the rows are of several machines: frontier (40 rows), lumi-g (10 rows); allowed: one of them, "),
        (
            ("--machine", "fronteer"),
            'machine "fronteer" is not in the catalog; did you mean "frontier"? (a file of your ',
        ),
        (("--machine", "perlmutter"), "{file}: --machine: no rows of machine 'perlmutter', allowed: frontier, lumi-g"),
        (("--library", "nccl"), "{file}: --library: no rows of library 'nccl', did you mean \"rccl\"?"),
        (
            ("--machine", "frontier", "--min-bytes", "lots"),
            "--min-bytes: got 'lots'; allowed: a number of bytes, e.g. ",
        ),
        (
            ("--machine", "frontier", "--min-bytes", "1TiB"),
            "{file}: none of 50 rows can be fitted to: below 1,099,511,",
        ),
        (("--machine", "lumi-g", "--min-bytes", "512MiB"), "{file}: fit of library rccl: got 1 points for "),
    ],
)
def test_each_fault_is_one_line_and_nothing_is_written(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    rows = made_up()
    file = write_calls(tmp_path / "my.csv", [*rows, *(replace(row, machine="lumi-g") for row in rows[:10])])
    got = refusal("calibrate", file, *options, "--out", tmp_path / "fit.toml")
    assert got.startswith(message.format(file=file)), got
    assert list(tmp_path.iterdir()) == [file]


def test_a_page_in_place_of_the_calibration_is_refused(tmp_path: Path) -> None:
    file = write_calls(tmp_path / "my.csv", made_up())
    out = tmp_path / "fit.toml"
    message = refusal("calibrate", file, "--out", out, "--page", out)
    assert message == f"--page: got {out}, the calibration itself; allowed: another file"


def test_bad_data_are_one_line(tmp_path: Path) -> None:
    rows = made_up()
    file = write_calls(tmp_path / "my.csv", [replace(rows[0], seconds=-1.0), *rows[1:]])
    message = refusal("calibrate", file, "--out", tmp_path / "fit.toml")
    assert message.startswith(f'{file} line 2: time_s: got "-1.0", allowed: a number of seconds above 0')
