"""Bytes per link: the file comes back as it was, and what is wrong in it is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.core.trace import LinkBytes, LinkTable, load_links, save_links
from tests.core.trace.fabrics import DIGEST, table

TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cf")), max_size=12)
BYTES = st.floats(0, 1e15) | st.integers(0, 1 << 50).map(float)
LINKS = st.builds(LinkBytes, name=TEXT, link_class=TEXT, src=TEXT, dst=TEXT, num_bytes=BYTES)
TABLES = st.builds(
    LinkTable,
    digest=TEXT,
    title=TEXT,
    links=st.lists(LINKS, max_size=6, unique_by=lambda link: link.name).map(tuple),
)


@settings(deadline=None)
@given(made=TABLES)
def test_a_table_comes_back_as_it_was(made: LinkTable, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "links-p.json"
    save_links(made, path)
    assert load_links(path) == made


def test_the_file_has_the_agreed_keys(tmp_path: Path) -> None:
    path = tmp_path / "links-p.json"
    save_links(table(num_nodes=1), path)
    document = json.loads(path.read_text(encoding="utf-8"))
    assert list(document) == ["digest", "title", "links"] and document["digest"] == DIGEST
    first = document["links"][0]
    assert first == {
        "name": "node 0 xgmi 0>1",
        "link_class": "xgmi4",
        "src": "node 0 gcd 0",
        "dst": "node 0 gcd 1",
        "num_bytes": 2e6,
    }
    assert [part.name for part in tmp_path.iterdir()] == ["links-p.json"]
