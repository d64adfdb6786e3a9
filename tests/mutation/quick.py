"""mutmut with a cheap way into its mutants: `python -m tests.mutation.quick run NAMES`, as `python -m mutmut run ...`.

mutmut asks the environment at every call of a function which mutant is meant, and resolves paths for every call that it
counts: the tests take several times as long. Here a call costs one look at the mutant of this process, and is counted
once for each test. Where no mutant is named, it ends when it knows which tests reach what.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn

import mutmut.__main__ as program
import mutmut.mutation.trampoline as trampoline
from mutmut.core import MutmutProgrammaticFailException
from mutmut.state import state

Function = Callable[..., Any]
USUAL = trampoline.wrap_in_trampoline


def into(mutants: dict[str, Function], is_classmethod: bool = False) -> Callable[[Function], Function]:
    """The decorator of a function that has mutants: the one under test is called in its place."""

    def decorated(function: Function) -> Function:
        if is_classmethod or inspect.isgeneratorfunction(function):
            return USUAL(mutants, is_classmethod)(function)
        reached = ""  # what mutmut calls the function, once its mutants are there

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal reached
            original, under_test = mutants["_mutmut_orig"], trampoline._mutant_under_test
            if not under_test:
                return original(*args, **kwargs)
            reached = reached or f"{original.__module__}.{original.__name__.partition('__mutmut_')[0]}"
            if under_test == "stats":
                state()._stats.add(reached)
            elif under_test == "fail":
                raise MutmutProgrammaticFailException
            elif under_test.startswith(reached):
                return mutants.get(under_test.rpartition(".")[2], original)(*args, **kwargs)
            return original(*args, **kwargs)

        return call

    return decorated


def mean(name: str | None) -> None:
    """Say which mutant is under test. What programs that tests start reach is not counted: it is lost with them."""
    trampoline.set_mutant_under_test(name)
    if name == "stats":
        os.environ["MUTANT_UNDER_TEST"] = ""


def stop_at_stats(*args: Any, **kwargs: Any) -> NoReturn:
    """Find out which tests reach what, and go no further."""
    collect(*args, **kwargs)
    raise SystemExit(0)


collect = program.collect_or_load_stats

if __name__ == "__main__":
    trampoline.wrap_in_trampoline, program.set_mutant_under_test = into, mean
    if not any("__mutmut_" in name for name in sys.argv):
        program.collect_or_load_stats = stop_at_stats
    program.cli(prog_name="mutmut")
