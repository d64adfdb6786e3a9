"""The mutants that mutmut has written into a tree: what each changes, which are drawn, and what became of them."""

from __future__ import annotations

import ast
import difflib
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import zip_longest
from pathlib import Path

SURVIVED, UNREACHED = 0, 33  # exit codes of pytest and of mutmut's own; others are failures, signals and time limits


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A change of one function: its name with mutmut, its package, and the code that its tests ended with."""

    name: str
    package: str
    meta: Path
    exit_code: int | None = None

    @property
    def change(self) -> str:
        """The lines that are taken away and put in."""
        return difference(*_pair(self.meta, self.name))

    @property
    def is_killed(self) -> bool:
        return self.exit_code not in (SURVIVED, UNREACHED, None)

    @property
    def outcome(self) -> str:
        return {SURVIVED: "survived", UNREACHED: "no test reaches it", None: "not judged"}.get(self.exit_code, "killed")

    def judged(self) -> Mutant:
        return replace(self, exit_code=_codes(self.meta)[self.name])


def mutants_of(tree: Path, package: str) -> list[Mutant]:
    """All mutants of a package but those of texts for people and of guards, by name."""
    out = []
    for meta in sorted((tree / "mutants" / "simfrontier" / package).rglob("*.py.meta")):
        for name in _codes(meta):
            if not is_of_text(*_pair(meta, name)):
                out.append(Mutant(name=name, package=package, meta=meta))
    return sorted(out, key=lambda each: each.name)


def is_of_text(original: ast.AST, mutated: ast.AST) -> bool:
    """Whether only what an error says, a text of several words, or a guard differs."""
    return _without_texts(original) == _without_texts(mutated)


def difference(original: ast.AST, mutated: ast.AST) -> str:
    """The lines that are taken away and put in."""
    before, after = (ast.unparse(each).splitlines() for each in (original, mutated))
    lines = difflib.unified_diff(before, after, lineterm="", n=0)
    return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@", "-def x", "+def x")))


def sample(every: Mapping[str, list[Mutant]], lines: Mapping[str, int], size: int, seed: int) -> list[Mutant]:
    """So many mutants, of each package in proportion to its lines; the same for the same seed."""
    whole = sum(lines.values())
    out = []
    for package, mutants in every.items():
        count = min(len(mutants), round(size * lines[package] / whole))
        out += random.Random(f"{seed} {package}").sample(mutants, count)
    return out


class _Texts(ast.NodeTransformer):
    """Takes away what errors say, texts of several words, and `strict` of `zip`, which guards what always holds."""

    def visit_keyword(self, node: ast.keyword) -> ast.AST | None:
        return None if node.arg == "strict" else self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        if isinstance(node.exc, ast.Call):
            node.exc = node.exc.func
        node.cause = None
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        words = any(isinstance(part, ast.Constant) and " " in str(part.value) for part in node.values)
        return ast.Constant("") if words else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant("") if isinstance(node.value, str) and " " in node.value.strip() else node


@lru_cache(maxsize=2)  # what mutants of one function have in common
def _without_texts(function: ast.AST) -> str:
    copy = ast.parse(ast.unparse(function)).body[0]
    assert isinstance(copy, ast.FunctionDef)
    copy.name = ""
    copy.decorator_list = []
    return ast.dump(_Texts().visit(copy))


def _pair(meta: Path, name: str) -> tuple[ast.FunctionDef, ast.FunctionDef]:
    """A function as it is, and as its mutant."""
    functions, mangled = _functions(meta.with_suffix("")), name.rpartition(".")[2]
    return functions[f"{mangled.rpartition('__mutmut_')[0]}__mutmut_orig"], functions[mangled]


@lru_cache(maxsize=1)
def _functions(path: Path) -> dict[str, ast.FunctionDef]:
    """Every function of a file by its name, which mutmut makes one of a kind."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {each.name: each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}


@cache
def _read(path: Path, _: int) -> dict[str, int | None]:
    codes: dict[str, int | None] = json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"]
    return codes


def _codes(meta: Path) -> dict[str, int | None]:
    return _read(meta, meta.stat().st_mtime_ns)


def limit_tests(stats: Path, limit_s: float) -> None:
    """Let every function be judged by tests of at most so many seconds: the quickest of each file of tests first.

    `stats` is what mutmut has found out: which tests reach a function, and how long each takes.
    """
    known = json.loads(stats.read_text(encoding="utf-8"))
    took: dict[str, float] = known["duration_by_test"]
    for function, tests in known["tests_by_mangled_function_name"].items():
        known["tests_by_mangled_function_name"][function] = _quickest(tests, took, limit_s)
    stats.write_text(json.dumps(known), encoding="utf-8")


def _quickest(tests: list[str], took: Mapping[str, float], limit_s: float) -> list[str]:
    by_file: dict[str, list[str]] = {}
    for test in sorted(tests, key=lambda each: (took[each], each)):
        by_file.setdefault(test.partition("::")[0], []).append(test)
    out, whole = [], 0.0
    for turn in zip_longest(*by_file.values()):
        for test in filter(None, turn):
            if out and whole + took[test] > limit_s:
                continue
            out.append(test)
            whole += took[test]
    return out
