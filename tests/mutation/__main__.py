"""`make mutation`: small changes of the code, one at a time; which of them no test sees.

mutmut makes the mutants in a copy of the tree and judges each by the tests that reach its function, in a process forked
from one that has imported them, until one fails: first by the quickest, then, what survives these, by more. Of all
mutants a sample is judged, drawn by the seed and spread over the packages by their lines. Texts for people are not
mutated, since no test should hold them word by word. Functions with decorators have no mutants: mutmut cannot exchange
them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.mutation.mutants import Mutant, limit_tests, mutants_of, sample

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = "core/program,core/plan,core/network,core/engine"
TESTS = "core/network,core/program,core/plan,core/engine"  # without those of `tests` itself and of real ranks
STATS = Path("mutants") / "mutmut-stats.json"
SECOND_LIMIT = 4  # times as long are the tests that judge once more what the quickest have let pass
BESIDE = ("real", "scenarios", "docs", "README.md", "Makefile", "tests", "pyproject.toml")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("--sample", type=int, default=500, help="how many mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--packages", default=PACKAGES, help="of simfrontier, with commas")
    parser.add_argument("--tests", default=TESTS, help="folders of tests that judge, with commas")
    parser.add_argument("--limit", type=float, default=5.0, help="seconds of tests that judge a mutant first")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "reports" / "mutation")
    given = parser.parse_args()
    packages = given.packages.split(",")
    tree = copied(given.out / "tree", packages, given.tests.split(","))
    run(tree, given.jobs)  # makes the mutants and finds out which tests reach them
    every = {package: mutants_of(tree, package) for package in packages}
    lines = {package: count_lines(ROOT / "simfrontier" / package) for package in packages}
    chosen = sample(every, lines, given.sample, given.seed)
    all_tests, left = (tree / STATS).read_bytes(), chosen
    for limit_s in (given.limit, SECOND_LIMIT * given.limit):
        (tree / STATS).write_bytes(all_tests)
        limit_tests(tree / STATS, limit_s)
        run(tree, given.jobs, *(each.name for each in left))
        left = [each for each in left if not each.judged().is_killed]
    sys.stdout.write(report(chosen, every, given.out))


def copied(tree: Path, packages: list[str], tests: list[str]) -> Path:
    """The files that git knows, in a folder of their own, with mutmut's settings."""
    shutil.rmtree(tree, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tree / name)
    settings = {
        "source_paths": ["simfrontier"],
        "only_mutate": [f"simfrontier/{package}/*" for package in packages],
        "also_copy": [name for name in BESIDE if (tree / name).exists()],
        "pytest_add_cli_args": ["-p", "no:cacheprovider", "-p", "no:xdist"],
        "pytest_add_cli_args_test_selection": [f"tests/{folder}" for folder in tests],
        "timeout_multiplier": 5.0,
        "timeout_constant": 2.0,
    }
    switches = "use_git_change_detection = false\ntrack_dependencies = false\n"
    with (tree / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write("\n[tool.mutmut]\n" + "".join(f"{key} = {value!r}\n" for key, value in settings.items()) + switches)
    return tree


def run(tree: Path, jobs: int, *names: str) -> None:
    """mutmut on mutants by their names; what it has found out before is kept in the tree."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    log = tree.parent / "mutmut.log"
    with log.open("a", encoding="utf-8") as file:
        done = subprocess.run(
            [sys.executable, "-m", "tests.mutation.quick", "run", "--max-children", str(jobs), *names],
            cwd=tree,
            env=environment,
            stdout=file,
            stderr=file,
        )
    if not (tree / STATS).exists():
        raise SystemExit(f"mutmut ended with {done.returncode} before a mutant was judged; see {log}")


def count_lines(folder: Path) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in folder.rglob("*.py"))


def report(chosen: list[Mutant], every: dict[str, list[Mutant]], out: Path) -> str:
    """A line for each package; the survivors with what is changed are kept in a file."""
    judged = [each.judged() for each in chosen]
    lines = [f"{'package':12} {'mutants':>8} {'judged':>7} {'killed':>7} {'share':>7}\n"]
    for package, mutants in [*every.items(), ("all", [])]:
        mine = [each for each in judged if package in (each.package, "all")]
        killed = sum(each.is_killed for each in mine)
        total = len(mutants) if mutants else sum(map(len, every.values()))
        lines.append(f"{package:12} {total:8,} {len(mine):7,} {killed:7,} {killed / max(1, len(mine)):7.1%}\n")
    survivors = [each for each in judged if not each.is_killed]
    path = out / "survivors.txt"
    kept = "".join(f"{each.name}  ({each.outcome})\n{each.change}\n\n" for each in survivors)
    path.write_text(kept, encoding="utf-8")
    return "".join(lines) + f"The {len(survivors)} that no test sees: {path}\n"


if __name__ == "__main__":
    main()
