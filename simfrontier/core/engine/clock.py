"""What the simulations add to SimPy's clock: calls at a time, and calls when an instant is over."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import simpy


def at(env: simpy.Environment, time: float, then: Callable[[object], None]) -> None:
    """Call `then` at a time; what is asked for first of the same time is called first."""
    env.timeout(max(0.0, time - env.now)).callbacks.append(then)


def at_end_of_instant(env: simpy.Environment, then: Callable[[], None]) -> None:
    """Call `then` now, after everything else that happens at this time. One caller of a clock at a time: two would
    wait for each other."""
    env.timeout(0).callbacks.append(partial(_look, env, then))


def _look(env: simpy.Environment, then: Callable[[], None], _: object) -> None:
    if env.peek() > env.now:
        then()
    else:
        env.timeout(0).callbacks.append(partial(_look, env, then))
