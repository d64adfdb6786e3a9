"""Pages of the documentation's site."""

from __future__ import annotations

import importlib.util

from tests.invoke import ROOT


def test_links_of_a_notebook_lead_to_pages() -> None:
    source = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert source and source.loader
    generate = importlib.util.module_from_spec(source)
    source.loader.exec_module(generate)
    outside = '<a href="https://github.com/a/b/blob/main/c.md">'
    html = f'<a href="real.md"><a href="how-to/job.md#traces">{outside}'
    assert generate.on_page_content(html) == f'<a href="real.html"><a href="how-to/job.html#traces">{outside}'
