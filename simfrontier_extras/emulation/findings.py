"""What came of an emulated run: collectives measured alone, the effect of a slowed link, the page, and the limits."""

from __future__ import annotations

import json
import math
from pathlib import Path

import typer

from simfrontier.cli import crosscheck_of, json_document, print_check
from simfrontier.trace import Comparison, Delta, compare, deltas, duration, read_perfetto, step_times
from simfrontier.wholefile import filled, listed
from simfrontier_extras.emulation.crosscheck.check import EmulatedCheck
from simfrontier_extras.emulation.crosscheck.limits import AgreementLimit
from simfrontier_extras.emulation.crosscheck.sections import limits_words
from simfrontier_extras.emulation.crosscheck.slowed import SLOWED, SlowLinkEffect, save_slowed
from simfrontier_extras.emulation.crosscheck.sweep import SWEEP, Implementation, SweepPoint, save_sweep
from simfrontier_extras.emulation.jobs import LOWERED, NATIVE, PLANS, SLOW, SLOW_FACTOR, SWEEP_PLAN, EmulateSettings

MIN_BYTES, TOLERANCE = 1 << 20, 0.15


def report(settings: EmulateSettings, out: Path, as_json: bool) -> bool:
    """Compare what was simulated with what was run, write the page and print the result; whether all limits hold."""
    from simfrontier.report import write_crosscheck_page

    real = out / PLANS / "real"
    save_sweep([*_points(out, LOWERED, "lowered"), *_points(out, NATIVE, "native")], real / SWEEP)
    save_slowed(_effects(out, f"node 0 {settings.slow_wire}"), real / SLOWED)
    check = crosscheck_of(out / PLANS / "sim", real, MIN_BYTES, TOLERANCE)
    (emulated,) = [each for each in check.added if isinstance(each, EmulatedCheck)]
    limits = emulated.limits
    with filled(out, "emulate") as new:
        write_crosscheck_page(check, new / "index.html")
    if as_json:
        document = json_document(check) | {"limits": [_document(limit) for limit in limits]}
        typer.echo(json.dumps(document, indent=1, allow_nan=False))
    else:
        print_check(check, out)
        typer.echo(limits_words(limits))
    return all(limit.holds for limit in limits)


def _document(limit: AgreementLimit) -> dict[str, object]:
    """A limit in the values of JSON, which has no infinite number."""
    seen = limit.seen if limit.seen is not None and math.isfinite(limit.seen) else None
    return {"what": limit.what, "allowed": limit.allowed, "seen": seen, "holds": limit.holds}


def _sweep(out: Path, job: str) -> Comparison:
    traces = (read_perfetto(out / job / side / f"trace-{SWEEP_PLAN}.json") for side in ("sim", "real"))
    return compare(SWEEP_PLAN, *traces)


def _whole(comparison: Comparison) -> dict[str, tuple[float, float]]:
    """Of every collective over all ranks: from when the last rank was ready to when the last one had done, simulated
    and real. A slowed link lets ranks end one after the other, so that their median means little."""
    out: dict[str, tuple[float, float]] = {}
    for pair in comparison.pairs:
        before = out.get(pair.sim.name, (0.0, 0.0))
        out[pair.sim.name] = max(before[0], duration(pair.sim)), max(before[1], duration(pair.real))
    return out


def _points(out: Path, job: str, variant: Implementation) -> list[SweepPoint]:
    swept = [delta for delta in deltas(_sweep(out, job)) if delta.is_collective]
    ordered = sorted(swept, key=lambda delta: (-delta.group_size, delta.kind, delta.message_bytes))
    return [
        SweepPoint(
            collectives=variant,
            kind=delta.kind,
            group=_group(delta),
            message_bytes=delta.message_bytes,
            sim_s=delta.sim_s,
            real_s=delta.real_s,
        )
        for delta in ordered
    ]


def _group(delta: Delta) -> str:
    axes = delta.axes.split("+")
    name = "world" if "node" in axes else "node" if "package" in axes else "package"
    return f"{name} ({delta.group_size})"


def _effects(out: Path, link: str) -> list[SlowLinkEffect]:
    """Of the plan whose step was run with the slowed link, and of the collectives that were."""
    usual, slowed = _sweep(out, LOWERED), _sweep(out, SLOW)
    effects = []
    for name in sorted(listed(out / SLOW / "sim")):
        plan = name.removeprefix("trace-").removesuffix(".json")
        if not name.startswith("trace-") or plan == SWEEP_PLAN:
            continue
        before, after = (
            step_times(compare(plan, *(read_perfetto(out / job / side / name) for side in ("sim", "real"))))
            for job in (PLANS, SLOW)
        )
        times = (before.sim_s, after.sim_s, before.real_s, after.real_s)
        effects.append(_effect(f"step of {plan}", link, *times))
    before_s, after_s = _whole(usual), _whole(slowed)
    for delta in deltas(slowed):
        (sim_s, real_s), (sim_slowed_s, real_slowed_s) = before_s[delta.name], after_s[delta.name]
        what = f"{delta.kind.replace('_', '-')} over {_group(delta)}"
        effects.append(_effect(what, link, sim_s, sim_slowed_s, real_s, real_slowed_s))
    return effects


def _effect(
    what: str, link: str, sim_s: float, sim_slowed_s: float, real_s: float, real_slowed_s: float
) -> SlowLinkEffect:
    return SlowLinkEffect(
        what=what,
        link=link,
        factor=SLOW_FACTOR,
        sim_s=sim_s,
        sim_slowed_s=sim_slowed_s,
        real_s=real_s,
        real_slowed_s=real_slowed_s,
    )
