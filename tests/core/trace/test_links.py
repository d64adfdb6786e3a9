"""Bytes per link: the file comes back as it was, and what is wrong in it is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.base.errors import InputError
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


def link(name: str, num_bytes: float, **more: str) -> LinkBytes:
    ends = {"link_class": "xgmi1", "src": "node 0 gcd 0", "dst": "node 0 gcd 1"}
    return LinkBytes(name=name, num_bytes=num_bytes, **{**ends, **more})


def of(*links: LinkBytes, **more: str) -> LinkTable:
    return LinkTable(**{"digest": DIGEST, "title": "by hand", **more}, links=links)


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


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda top: top.update(linkz=1), 'linkz: unknown key; did you mean "links"?'),
        (lambda top: top["links"][1].update(num_bytes=-1), "links[1].num_bytes: got -1, allowed: at least 0"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_place(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], text: str
) -> None:
    path = tmp_path / "links-p.json"
    save_links(of(link("a", 1.0), link("b", 2.0)), path)
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_links(path)
    assert str(caught.value).startswith(f"{path}: {text}")
