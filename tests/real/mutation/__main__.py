"""`python -m tests.real.mutation [CASE …]`: the matrix of faults and families; exit code 1 where one passes unseen.

With `--faults WORDS` only faults with these words in their names.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.real.mutation.cases import CASES
from tests.real.mutation.faults import ALL
from tests.real.mutation.matrix import Bench, outcomes

MARKS = {"caught": "x", "ended": "e", "crashed": "C", "passed": "P", "below": "~", "not applicable": ".", "broken": "B"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help="families (default: all)")
    parser.add_argument("--faults", default="", help="words of the names of faults")
    given = parser.parse_args()
    cases = [name for name in CASES if not given.cases or any(each in name for each in given.cases)]
    faults = tuple(fault for fault in ALL if given.faults in fault.name)
    began = time.monotonic()
    table: dict[str, dict[str, str]] = {}
    for name in cases:
        row = table[name] = {}
        for fault, result in outcomes(Bench(name, CASES[name]()), faults):
            outcome = row[fault.name] = result.said
            if outcome in ("passed", "crashed", "broken", "below"):
                _say(f"{name}: {fault.name}: {outcome}: {result.why}")
        _say(f"{name}: {_counted(row)}")
    _say("")
    for number, name in enumerate(cases, 1):
        _say(f"{number:3} {name}")
    _say("")
    _say(" " * 44 + "".join(f"{number:3}" for number in range(1, len(cases) + 1)))
    for fault in faults:
        _say(f"{fault.name:44}" + "".join(f"{MARKS[table[name][fault.name]]:>3}" for name in cases))
    _say("\n" + "  ".join(f"{mark} {outcome}" for outcome, mark in MARKS.items()))
    every = Counter(outcome for row in table.values() for outcome in row.values())
    used = {name for row in table.values() for name, outcome in row.items() if outcome != "not applicable"}
    _say(f"{len(used)} faults in {len(cases)} families: {_counted(every)}; {time.monotonic() - began:.0f} s")
    return int(bool(every["passed"] or every["crashed"] or every["broken"]))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _counted(row: dict[str, str] | Counter[str]) -> str:
    counts = row if isinstance(row, Counter) else Counter(row.values())
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in MARKS if counts[outcome])


if __name__ == "__main__":
    sys.exit(main())
