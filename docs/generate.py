"""Pages of the site that are made from the program: every command with its options, every key of a scenario file, every
column of results, every published run with its prediction; and the start, which is the README."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RUNS = "published-runs.html"


def on_files(files: Any, config: Any) -> Any:
    """mkdocs asks for the files of the site."""
    from mkdocs.structure.files import File

    pages = {"index.md": start(), "commands.md": commands(), "keys.md": keys(), "columns.md": columns()}
    pages[RUNS] = runs()
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_content(html: str, **_: Any) -> str:
    """mkdocs has made the HTML of a page: links of a notebook lead to pages, as mkdocs makes those of Markdown, and no
    line ends between a number and its percent sign."""
    html = re.sub(r'(href="[\w./-]+)\.md(?=[#"])', r"\1.html", html)
    return re.sub(r"(\d) %", "\\1\N{NO-BREAK SPACE}%", html)


def start() -> str:
    """The README, whose links lead to pages of this folder."""
    return re.sub(r"\]\(docs/", "](", (ROOT / "README.md").read_text(encoding="utf-8"))


def commands() -> str:
    """Every verb of both command lines, with its arguments and options."""
    from simfrontier.interfaces.cli.program import app_of
    from simfrontier_real.cli import app as real

    parts = ["# Commands\n"]
    for program, app in (("simfrontier", app_of()), ("simfrontier-real", real)):
        parts.append(f"## {program}\n")
        parts += _verbs(program, app)
    return "\n".join(parts) + "\n"


def _verbs(program: str, app: Any) -> Iterator[str]:
    from typer.main import get_command

    for name, verb in sorted(get_command(app).commands.items()):  # type: ignore[attr-defined]
        if verb.hidden:
            continue
        yield f"### {program} {name}\n\n{_text(verb.help)}\n"
        yield _table("option", "meaning", "default")
        yield from (_option(each) for each in verb.params if each.name != "help")
        yield ""


def _option(each: Any) -> str:
    """An argument or option as a row."""
    named = [f"`{one}`" for one in (*each.opts, *each.secondary_opts)]
    names = ", ".join(named) if each.param_type_name == "option" else f"`{each.name.upper()}`"
    default = "" if each.default in (None, False, ()) or callable(each.default) else f"`{each.default}`"
    return _row(names, each.help, default)


def keys() -> str:
    """Every key of a scenario file."""
    from simfrontier.inputs.scenario.keys import plan_sentences, scenario_keys

    listed = scenario_keys()
    every = max(len(key.families) for key in listed)
    parts = ["# Keys of a scenario file\n"]
    parts += ["`--set key=value` sets any of them; `simfrontier list keys` prints them.\n"]
    parts += [_table("key", "meaning", "may be", "default")]
    plain = [key for key in listed if not key.families]
    first = next(place for place, key in enumerate(plain) if key.name == "name")  # before it stand those of extras
    parts += [_row(f"`{key.name}`", key.sentence, key.allowed, key.default) for key in plain[first:] + plain[:first]]
    parts += ["\n## Plans\n", _table("family", "what it is")]
    parts += [_row(f"`{name}`", sentence) for name, sentence in plan_sentences().items()]
    parts += ["\n### Keys of a plan\n", _table("key", "meaning", "may be", "default", "families")]
    for key in listed:
        if key.families:
            of = "all" if len(key.families) == every else ", ".join(key.families)
            parts.append(_row(f"`{key.name}`", key.sentence, key.allowed, key.default, of))
    return "\n".join(parts) + "\n"


def columns() -> str:
    """Every column of results."""
    from simfrontier.answers.study import RESULTS

    parts = ["# Columns of results\n"]
    parts += ["`results.csv`, `Comparison.frame()`, `run --json` and the rows of a sweep have these columns.\n"]
    parts += [_table("column", "what it is", "unit", "meaning")]
    parts += [_row(f"`{each.name}`", each.title, each.unit, each.meaning) for each in RESULTS]
    return "\n".join(parts) + "\n"


def runs() -> str:
    """The page of published runs: a file by itself, in no template of the site."""
    from simfrontier.answers.accuracy import written_runs
    from simfrontier.interfaces.report.runs_page import runs_page

    return runs_page(written_runs(), documentation=True)


def _table(*heads: str) -> str:
    return f"{_row(*heads)}\n|{' --- |' * len(heads)}"


def _row(*cells: str | None) -> str:
    return f"| {' | '.join(map(_text, cells))} |"


def _text(words: str | None) -> str:
    return " ".join((words or "").split()).replace("|", "\\|")
