"""python -m tests.mutated: changes one stored fact of a schedule at a time, checks it, and trains what passes.

Exit code 1 where a schedule passes the check and then trains differently or not at all.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path

from tests.mutated.cases import CASES
from tests.mutated.facts import sampled
from tests.mutated.verdicts import Judge, Seen


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutated", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="which mutations are drawn")
    parser.add_argument("--per-kind", type=int, default=3, help="mutations of each kind of fact and schedule")
    parser.add_argument("--cases", default=",".join(CASES), help="schedules, separated by commas")
    parser.add_argument("--kinds", default="", help="only kinds of facts that begin with this, e.g. tensors.shares")
    parser.add_argument("--list", type=Path, help="write every mutation and what became of it to this file")
    args = parser.parse_args()
    begin, seen = time.process_time(), []
    for name in args.cases.split(","):
        seen += judged(name, args.seed, args.per_kind, args.kinds)
    if args.list:
        args.list.write_text("".join(f"{one} {' '.join(one.prices)}\n" for one in seen), encoding="utf-8")
    for one in seen:
        if one.is_hole:
            _say(str(one))
    unnoticed = Counter(
        f"{one.mutation.kind} ({', '.join(one.prices)})" for one in seen if one.prices and not one.is_hole
    )
    for kind, times in sorted(unnoticed.items()):
        _say(f"trains equal, at another price: {kind}: {times}")
    _say(f"{summary(seen, args.seed)} {time.process_time() - begin:.0f} CPU s")
    return int(any(one.is_hole for one in seen))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def judged(name: str, seed: int, per_kind: int, kinds: str = "") -> list[Seen]:
    """What became of the mutations that a seed draws of one schedule."""
    judge, numbers = Judge(name, CASES[name]), random.Random(f"{seed} {name}")
    return [judge.judge(each) for each in sampled(judge.text, numbers, per_kind) if each.kind.startswith(kinds)]


def summary(seen: list[Seen], seed: int) -> str:
    count = Counter(one.verdict for one in seen)
    passed = count["equal"] + count["differs"] + count["crashes"]
    return (
        f"seed {seed}: {len(seen)} mutations, {count['same']} of them the same schedule; {count['refused']} refused, "
        f"{passed} passed: {count['equal']} train equal, {count['differs']} differ, {count['crashes']} crash;"
    )


if __name__ == "__main__":
    sys.exit(main())
