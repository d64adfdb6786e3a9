"""Small files of machines, libraries, calibrations, logs and tables that mean unbounded work or endless numbers: each
ends in one line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from simfrontier.collectives.algorithms import algorithm
from simfrontier.collectives.lowering import Recipe
from simfrontier.collectives.lowering.lower import lower
from simfrontier.errors import InputError
from simfrontier.io import read_toml
from simfrontier.limits import TRANSFERS
from simfrontier.machine.hardware import Link
from simfrontier.machine.routing import routes
from simfrontier.schedule.algorithms import ALGORITHMS
from tests.invoke import ROOT
from tests.limited import limited, limited_refusal

MACHINE = ROOT / "simfrontier" / "machine" / "catalog" / "toy-cluster.toml"
RCCL = ROOT / "simfrontier" / "collectives" / "catalog" / "rccl.toml"
SCENARIO = """
name = "t"
title = "t"
[machine]
name = "{machine}"
[library]
name = "{library}"
[model]
name = "tiny"
[run]
devices = [8]
[plans.zero3]
"""


def scenario(folder: Path, machine: str = "frontier", library: str = "rccl") -> Path:
    path = folder / "s.toml"
    path.write_text(SCENARIO.format(machine=machine, library=library), encoding="utf-8")
    return path


def changed(source: Path, folder: Path, key: str, value: str) -> str:
    """The name of a copy of a TOML file in which the value of the first `key` is another."""
    text, times = re.subn(
        rf"^({key} = {{{{? ?value = )[^,]+", rf"\g<1>{value}", source.read_text(encoding="utf-8"), count=1, flags=re.M
    )
    assert times == 1, key
    (folder / "changed.toml").write_text(text, encoding="utf-8")
    return "changed.toml"


@pytest.mark.parametrize(
    ("key", "value", "most"),
    [
        ("devices_per_node", "100000000", "128"),
        ("devices_per_package", "1000000000", "128"),
        ("nodes_per_group", "1000000000", "1048576"),
        ("num_groups", "1000000000", "2048"),
        ("num_compute_units", "1000000000000000000000000000000", "1000000"),
    ],
)
def test_counts_of_a_machine_are_bounded(key: str, value: str, most: str, tmp_path: Path) -> None:
    text = limited_refusal("check", scenario(tmp_path, machine=changed(MACHINE, tmp_path, key, value)))
    assert text.endswith(f"{key}.value: got {value}, allowed: at least 1 and at most {most}")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("num_channels", "1048576", "num_channels.value: got 1048576, allowed: at least 1 and at most 128"),
        ("model_sd", "2.1e8", "residual.model_sd.value: got 210000000.0, allowed: at least 0 and at most 3"),
        ("hop_between_nodes_s", "1e308", "hop_between_nodes_s.value: got 1e+308, allowed: at least 0 and at most 1"),
        (
            "ranks_4_packages_2_bytes_per_s",
            "1e-300",
            "ranks_4_packages_2_bytes_per_s.value: got 1e-300, allowed: at least 1e-30",
        ),
    ],
)
def test_numbers_of_a_library_are_bounded(key: str, value: str, message: str, tmp_path: Path) -> None:
    """So that no step takes an endless time: a deviation of 2.1e8 wrote `nan` into results.csv."""
    library = changed(RCCL, tmp_path, key, value)
    out = tmp_path / "out"
    assert message in limited_refusal("run", scenario(tmp_path, library=library), "--no-page", "--out", out)
    assert not out.exists()


def test_slices_of_a_ring_are_bounded(tmp_path: Path) -> None:
    gloo = ROOT / "simfrontier" / "collectives" / "catalog" / "gloo.toml"
    path = scenario(tmp_path, machine="toy-cluster", library=changed(gloo, tmp_path, "slices", "1048576"))
    text = limited_refusal("export", path, "--fidelity", "chunk", "--out", tmp_path / "out")
    assert "ring.slices.value: got 1048576, allowed: at least 1 and at most 4096" in text


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_transfers_are_counted_before_they_are_made(name: str) -> None:
    counted = 0
    for size in (2, 3, 4, 8, 12):
        for per_node in (1, 2, size):
            for kind in algorithm(name).collectives:
                recipe = Recipe(algorithm=name, orders=(tuple(range(size)),) * 2, per_node=per_node, slices=3)
                try:
                    made = len(lower(kind, recipe).transfers)
                except InputError:  # halving takes powers of two, and nodes hold as many each
                    continue
                assert made <= algorithm(name).num_transfers(kind, recipe), recipe
                counted += 1
    assert counted


def test_too_many_transfers_are_refused() -> None:
    recipe = Recipe(algorithm="ring", orders=(tuple(range(128)),) * 8, per_node=8, slices=4096)
    with pytest.raises(InputError, match=f"532,676,608 transfers; allowed: up to {TRANSFERS.most:,}"):
        lower("all_gather", recipe)


def test_routes_of_a_long_ladder_are_found() -> None:
    """63 rungs of two devices each: 2^62 shortest routes, of which the widest with the lowest ids is kept."""
    links = []
    for rung in range(63):
        for a in (2 * rung, 2 * rung + 1):
            for b in (2 * rung + 2, 2 * rung + 3):
                links.append(Link(name=f"{a}>{b}", src=a, dst=b, link_class="x", bytes_per_s=1.0 + b % 2))
    paths = routes(links, 128)
    way = [links[at] for at in paths[0][127]]
    assert [link.dst for link in way] == [*range(3, 127, 2), 127]
    assert [links[at].dst for at in paths[0][126]] == [*range(2, 127, 2)]  # as narrow as its last link in any case


# ── text files ──


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a" + ".a" * 20_000 + " = 1\n", "20,000 dots in a line"),
        ("x = [" + "0," * 40_000 + "]\n", "80,006 characters in a line; allowed: up to 65,536"),
    ],
)
def test_lines_of_toml_are_bounded(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "long.toml"
    path.write_text(f"\n{text}", encoding="utf-8")
    with pytest.raises(InputError, match=f"not a TOML file: line 2: {message}"):
        read_toml(path, "scenario")


def test_documents_of_toml_are_not_deep(tmp_path: Path) -> None:
    path = tmp_path / "deep.toml"
    path.write_text(f"x = {'[' * 60}{']' * 60}\n", encoding="utf-8")
    with pytest.raises(InputError, match="not a TOML file: 41 tables and arrays in one another; allowed: up to 40"):
        read_toml(path, "scenario")


@pytest.mark.parametrize("reader", ["scenario", "log", "schedule"])
def test_a_device_without_an_end_is_no_file(reader: str, tmp_path: Path) -> None:
    path = tmp_path / {"scenario": "s.toml", "log": "run.log", "schedule": "s.json"}[reader]
    path.symlink_to("/dev/zero")
    words = ("validate", "--data", path) if reader == "log" else ("check", path)
    assert limited_refusal(*words).endswith(": is a device; allowed: a file that can be read from its beginning")


OSU = "# OSU MPI Allgather Latency Test v7.5\n# Size       Avg Latency(us)\n1 7.8\n8 7.9\n"
GIVEN = ("--machine", "frontier", "--library", "rccl", "--devices", "16")


@pytest.mark.parametrize(
    "line",
    ["\n".join(["# OSU A B" + " " * 4_000] * 3), "1 " + "x" * 50_000],
    ids=["header", "row"],
)
def test_lines_of_a_log_are_read_in_linear_time(line: str, tmp_path: Path) -> None:
    path = tmp_path / "osu.txt"
    path.write_text(OSU + line + "\n", encoding="utf-8")
    ran = limited("validate", "--data", path, *GIVEN)
    assert ran.code == 0 and ran.err == ""


def test_times_of_a_calibration_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    points = "{ bytes = 1048576, seconds = 0.1 }, { bytes = 2097152, seconds = 9223372036854775807 }"
    call = f'{{ kind = "all_gather", ranks = 8, nodes = 1, packages = 4, points = [{points}] }}'
    path.write_text(f'title = "t"\nwhere = "w"\nwhen = "n"\nhow = "h"\ncalls = [{call}]\n', encoding="utf-8")
    text = limited_refusal("validate", "--data", path, "--machine", "frontier", "--library", "rccl")
    assert "calls[0].points[1].seconds: got 9223372036854775807, allowed: more than 0 and at most 1" in text
