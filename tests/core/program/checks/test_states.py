"""States: each is what it was until the last op that touches it writes it anew; a constant never changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simfrontier.core.program import Op
from simfrontier.core.program.checks.instances import check_instances
from simfrontier.core.program.expansion import expand
from simfrontier.core.program.finding import CheckedRole, Findings
from tests.core.engine.kernels import kernel, of


def found(*ops: Op, calls: int = 1, follows: str | None = None) -> str:
    """What is said of ops on a state s = `a` and a constant `c`, in calls of one micro-batch after the other."""
    built = of(*[ops] * calls)
    tensors = {
        **built.tensors,
        "a": replace(built.tensors["a"], role="state", follows=follows),
        "c": replace(built.tensors["c"], role="constant"),
    }
    (role,) = built.roles
    role = replace(role, calls=tuple(replace(call, micro=micro) for micro, call in enumerate(role.calls)))
    built = replace(built, tensors=tensors, roles=(role,))
    findings = Findings()
    check_instances(built, CheckedRole(built, role, expand(built, role), findings))
    return "\n".join(str(finding) for finding in findings.all() if finding.rule == "versions")


READ, WRITE = kernel("reader", reads="a", writes="b"), kernel("writer", reads="b", writes="a")


@pytest.mark.parametrize(
    ("ops", "calls", "follows", "words"),
    [
        ((READ, WRITE), 1, None, ""),
        ((READ, WRITE), 3, None, ""),  # in every micro-batch
        ((WRITE, READ), 1, None, "as it was before; found written anew before, by add writer"),
        ((WRITE, WRITE), 1, None, "written once; found written anew before, by add writer"),
        ((READ, WRITE), 2, "w", "as it was before"),  # what follows a weight changes once in a step
        ((READ,), 1, None, "end of micro-batch 0: a"),
        ((READ,), 2, "w", "end of step: a"),
        ((READ, WRITE, kernel("other", reads="c")), 1, None, ""),
        ((READ, WRITE, kernel("other", writes="c")), 1, None, "expected c never written"),
    ],
)
def test_what_is_read_and_written_in_which_order(
    ops: tuple[Op, ...], calls: int, follows: str | None, words: str
) -> None:
    said = found(*ops, calls=calls, follows=follows)
    assert words in said if words else not said, said
