"""Limits of an emulated run, worked by hand: a difference that is a little too large is caught."""

from __future__ import annotations

import pytest

from simfrontier.core.trace.comparison import Comparison, compare
from simfrontier.core.trace.crosscheck import CrossCheck
from simfrontier.core.trace.verdict import judge
from simfrontier_extras.emulation.added_checks import EmulatedCheck
from simfrontier_extras.emulation.limits import (
    AgreementLimit,
    Implementation,
    LinkCheck,
    LinkPair,
    SlowLinkEffect,
    SweepPoint,
    sweep_medians,
)
from tests.core.trace.fakes import span, trace

MIB = float(1 << 20)
SAME = "the same operations ran in both"


def plan(name: str, sim_s: float, real_s: float, **more: str) -> Comparison:
    """A plan of one gather that is the whole step."""
    ours, theirs = (trace((span(0, 0.0, took, axes="node", **each),)) for took, each in ((sim_s, {}), (real_s, more)))
    return compare(name, ours, theirs)


def link(sim_bytes: float, real_bytes: float, name: str = "node 0 nic0>net") -> LinkPair:
    ends = {"link_class": "nic", "src": "node 0 nic0", "dst": "net"}
    return LinkPair(name=name, sim_bytes=sim_bytes, real_bytes=real_bytes, **ends)


def point(ratio: float, way: Implementation = "lowered", message_bytes: float = MIB) -> SweepPoint:
    return SweepPoint(
        collectives=way,
        kind="all_gather",
        group="world (16)",
        message_bytes=message_bytes,
        sim_s=0.5,
        real_s=0.5 * ratio,
    )


def slowed(sim_effect: float, real_effect: float) -> SlowLinkEffect:
    return SlowLinkEffect(
        what="step of a",
        link="node 0 nic0>net",
        factor=0.5,
        sim_s=2.0,
        sim_slowed_s=2.0 * sim_effect,
        real_s=4.0,
        real_slowed_s=4.0 * real_effect,
    )


def check(
    *plans: Comparison,
    links: tuple[LinkPair, ...] = (),
    sweep: tuple[SweepPoint, ...] = (),
    effects: tuple[SlowLinkEffect, ...] = (),
) -> EmulatedCheck:
    made = plans or (plan("a", 1.0, 1.0),)
    tables = LinkCheck(plan="a", sim_title="s", real_title="r", pairs=links)
    operations = CrossCheck(comparisons=made, verdict=judge(made, MIB, 0.15))
    return EmulatedCheck(operations=operations, links=(tables,), sweep=sweep, slowed=effects)


def found(checked: EmulatedCheck) -> dict[str, AgreementLimit]:
    limits = checked.limits
    assert len({limit.what for limit in limits}) == len(limits)
    return {limit.what: limit for limit in limits}


def missed(checked: EmulatedCheck) -> list[str]:
    return [limit.what for limit in checked.limits if not limit.holds]


def test_all_there_is_to_hold_is_listed_once() -> None:
    """Links 1 and 2 % off, of which the worst is said; a link of 1 MB is not judged."""
    checked = check(
        plan("a", 1.0, 1.1),
        plan("b", 2.0, 1.9),
        links=(link(2e6, 2.02e6, "x"), link(2e6, 1.96e6, "y"), link(1e6, 5e5, "z")),
        sweep=(point(1.05), point(1.15, "native")),
        effects=(slowed(1.5, 1.4),),
    )
    limits = found(checked)
    assert list(limits) == [
        SAME,
        "bytes of 2 link directions, the worst",
        "all-gather over world (16), lowered",
        "all-gather over world (16), native",
        "step of a",
        "step of b",
        "the plans rank alike",
        "step of a with node 0 nic0>net at 0.5 of its rate",
    ]
    assert all(limit.holds for limit in limits.values())
    seen = [limit.seen for limit in limits.values()]
    # |1.4 / 1.5 - 1| = 1/15
    assert seen == [None, *map(pytest.approx, (0.02, 0.05, 0.15, 0.1, 0.05)), None, pytest.approx(1 / 15)]
    assert [limit.allowed for limit in limits.values()] == [None, 0.03, 0.10, 0.20, 0.15, 0.15, None, 0.15]


@pytest.mark.parametrize(("way", "ratio", "holds"), [("lowered", 1.09, True), ("lowered", 0.89, False)])
@pytest.mark.parametrize("small", [0.1, 10.0])
def test_lowered_collectives_may_be_10_percent_off(
    way: Implementation, ratio: float, holds: bool, small: float
) -> None:
    """What is smaller than 1 MiB does not count."""
    limits = found(check(sweep=(point(ratio, way), point(small, way, MIB - 1))))
    assert limits[f"all-gather over world (16), {way}"].holds is holds


def test_plans_that_rank_otherwise_are_missed() -> None:
    """1.00 and 1.01 s simulated, 1.05 and 1.02 s in reality: each near, but the other way round."""
    assert missed(check(plan("a", 1.0, 1.05), plan("b", 1.01, 1.02))) == ["the plans rank alike"]


@pytest.mark.parametrize(
    ("sim_effect", "real_effect", "holds"),
    [
        (1.5, 1.5, True),
        (2.0, 1.75, True),  # an eighth apart
        (2.0, 1.6, False),  # a fifth
        (1.0, 1.0, False),  # neither shows it
        (1.16, 1.14, False),  # near, but one shows nothing to speak of
        (1.14, 1.16, False),
    ],
)
def test_both_sides_must_show_a_slowed_link_alike(sim_effect: float, real_effect: float, holds: bool) -> None:
    limits = found(check(effects=(slowed(sim_effect, real_effect),)))
    assert limits["step of a with node 0 nic0>net at 0.5 of its rate"].holds is holds


def test_medians_are_over_sizes_of_1_mib_and_more() -> None:
    """Ratios 1.05, 1.2 and 0.7: their median is 1.05, that of the distances 0.05, 0.2 and 0.3 is 0.2."""
    points = [point(9.0, message_bytes=MIB - 1), point(1.05), point(1.2), point(0.7), point(1.15, "native")]
    lowered, native = sweep_medians(points)
    assert (lowered.num_sizes, lowered.ratio, lowered.apart) == (3, pytest.approx(1.05), pytest.approx(0.2))
    assert (native.num_sizes, native.apart) == (1, pytest.approx(0.15))
    assert native.is_near and not lowered.is_near
