"""The authors' bandwidths: every entry of both tables, and what a file of them may hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfrontier.errors import InputError
from simfrontier.io import read_toml
from simfrontier_extras.axonn_model.bandwidth import CATALOG, load_bandwidths
from simfrontier_extras.axonn_model.versions import VERSIONS, VersionName
from tests.some import some

# As get_bw(ip, my) of the source has them: (inner, size) -> GB/s.
VERSION_A = {
    "perlmutter": {
        (1, 2): 76, (1, 4): 225, (1, 8): 80, (1, 512): 80,
        (2, 2): 76, (2, 4): 40, (2, 64): 40,
        (4, 2): 20, (4, 4): 20, (8, 2): 20, (64, 16): 20,
    },
    "frontier": {
        (1, 2): 129, (1, 4): 52, (1, 8): 135, (1, 16): 40, (1, 512): 40,
        (2, 2): 50, (2, 4): 72, (2, 8): 20, (2, 64): 20,
        (4, 2): 36, (4, 4): 10, (8, 2): 5, (16, 2): 5, (512, 4): 5,
    },
}  # fmt: skip
VERSION_B = {
    "perlmutter": {
        (1, 2): 76, (1, 4): 225, (1, 8): 59.52, (2, 2): 76, (2, 4): 29.76, (4, 2): 14.88, (64, 2): 14.88,
    },
    "frontier": {
        (1, 2): 129, (1, 4): 52, (1, 8): 135, (1, 16): 109.98, (2, 2): 50, (2, 4): 72, (2, 8): 54.99,
        (4, 2): 36, (4, 4): 27.495, (8, 2): 13.7475, (64, 4): 13.7475,
    },
}  # fmt: skip


@pytest.mark.parametrize(("version", "tables"), [("axonn-a", VERSION_A), ("axonn-b", VERSION_B)])
def test_bandwidths_are_those_of_the_source(
    version: VersionName, tables: dict[str, dict[tuple[int, int], float]]
) -> None:
    for machine, expected in some(tables.items()):
        bandwidths = load_bandwidths(version, machine)
        got = {key: bandwidths.gib_per_s(*key) for key in expected}
        assert got == pytest.approx(expected, rel=1e-12), machine


def test_latencies_are_those_of_the_source() -> None:
    latencies = {(v, m): load_bandwidths(v, m).latency_s_per_rank for v in VERSIONS for m in ("frontier", "perlmutter")}
    assert latencies == {
        ("axonn-a", "frontier"): 0.0,
        ("axonn-a", "perlmutter"): 0.0,
        ("axonn-b", "frontier"): 39e-6,
        ("axonn-b", "perlmutter"): 9e-6,
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_every_table_names_its_public_source(version: VersionName) -> None:
    for tables in some(read_toml(CATALOG / f"{version}.toml", "table")["machines"].values()):
        for key in ("latency_s_per_rank", "in_node", "between_nodes"):
            part = tables[key]
            assert part["source"].startswith("axonn-ai/") and "comm_model.py" in part["source"]
            assert part["kind"] in ("quoted", "inferred")


@pytest.mark.parametrize("version", VERSIONS)
def test_perlmutter_with_more_memory_has_the_same_bandwidths(version: VersionName) -> None:
    assert load_bandwidths(version, "perlmutter-80gb") == load_bandwidths(version, "perlmutter")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_machine_without_a_table_is_told_which_have_one(version: VersionName) -> None:
    with pytest.raises(InputError) as refused:
        load_bandwidths(version, "lumi-g")
    assert (
        str(refused.value)
        == f"{version} has no table of bandwidths on 'lumi-g'; allowed: frontier, perlmutter, perlmutter-80gb"
    )


GOOD = """
[machines.here]
latency_s_per_rank = { value = 1e-6, kind = "assumed", source = "made for a test" }
in_node = { kind = "assumed", source = "made for a test", rows = [{ inner = 1, size = 2, gib_per_s = 10.0 }] }
between_nodes = { kind = "assumed", source = "made for a test", gib_per_s = 4.0, shared_by_at_most = 2 }
"""


def loaded(text: str, folder: Path) -> float:
    (folder / "axonn-b.toml").write_text(text, encoding="utf-8")
    return load_bandwidths("axonn-b", "here", folder).gib_per_s(2, 2)


def test_a_file_of_the_right_form_is_read(tmp_path: Path) -> None:
    assert loaded(GOOD, tmp_path) == 2.0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("size = 2", "sise = 2", 'in_node.rows[0].sise: unknown key; did you mean "size"? (and 1 more fault)'),
        ("gib_per_s = 10.0", "gib_per_s = 0.0", "in_node.rows[0].gib_per_s: got 0.0, allowed: more than 0"),
        ("size = 2", "size = 1", "in_node.rows[0].size: got 1, allowed: at least 2"),
        (
            "gib_per_s = 10.0 }",
            "gib_per_s = 10.0 }, { inner = 1, size = 2, gib_per_s = 11.0 }",
            "in_node.rows[1]: got inner = 1, size = 2 twice, allowed: every pair once",
        ),
        ('kind = "assumed", source = "made for a test", rows', "rows", "in_node.kind: missing (and 1 more fault)"),
        (", shared_by_at_most = 2", "", "between_nodes.shared_by_at_most: missing"),
    ],
)  # fmt: skip
def test_a_fault_of_a_file_is_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        loaded(GOOD.replace(old, new), tmp_path)
    assert str(refused.value) == f"axonn-b.toml: machines.here.{message}"
