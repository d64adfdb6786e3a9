"""What came of an emulated run: collectives measured alone, the effect of a slowed link, the page, and the limits."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import typer

from simfrontier.cli import crosscheck_document, print_check, print_json
from simfrontier.trace import Comparison, Delta, compare, crosscheck_of, deltas, duration, read_perfetto, step_times
from simfrontier.wholefile import filled, listed, write_whole
from simfrontier_extras.emulation.changed import CHANGED, MadeChange, load_changes
from simfrontier_extras.emulation.crosscheck.check import EmulatedCheck
from simfrontier_extras.emulation.crosscheck.limits import AgreementLimit
from simfrontier_extras.emulation.crosscheck.sections import limits_words
from simfrontier_extras.emulation.crosscheck.slowed import SLOWED, SlowLinkEffect, save_slowed
from simfrontier_extras.emulation.crosscheck.sweep import SWEEP, Implementation, SweepPoint, save_sweep
from simfrontier_extras.emulation.jobs import (
    DIP,
    DIP_FACTOR,
    LOWERED,
    NATIVE,
    PLANS,
    SLOW,
    SLOW_FACTOR,
    SWEEP_PLAN,
    EmulateSettings,
)

MIN_BYTES, TOLERANCE = 1 << 20, 0.15


def report(settings: EmulateSettings, out: Path, as_json: bool) -> bool:
    """Compare what was simulated with what was run, write the page and print the result; whether all limits hold."""
    from simfrontier.report import crosscheck_page

    real = out / PLANS / "real"
    save_sweep([*_points(out, LOWERED, "lowered"), *_points(out, NATIVE, "native")], real / SWEEP)
    link = f"node 0 {settings.slow_wire}"
    save_slowed([*_effects(out, link), *_dip_effects(out, link)], real / SLOWED)
    changed = out / DIP / "real" / CHANGED
    made = load_changes(changed) if changed.exists() else ()  # the steps may have ended before
    check = crosscheck_of(out / PLANS / "sim", real, MIN_BYTES, TOLERANCE)
    (emulated,) = [each for each in check.added if isinstance(each, EmulatedCheck)]
    limits = emulated.limits
    with filled(out, "emulate") as new:
        write_whole(new / "index.html", crosscheck_page(check))
    if as_json:
        document = crosscheck_document(check) | {"limits": [_document(limit) for limit in limits]}
        document |= {"changes": [asdict(change) for change in made]}
        print_json(document)
    else:
        print_check(check, out)
        for line in (*map(_made_words, made), *map(_dip_words, emulated.slowed)):
            if line:
                typer.echo(line)
        typer.echo(limits_words(limits))
    return all(limit.holds for limit in limits)


def _document(limit: AgreementLimit) -> dict[str, object]:
    return {"what": limit.what, "allowed": limit.allowed, "seen": limit.seen, "holds": limit.holds}


def _made_words(change: MadeChange) -> str:
    rates = ", ".join(f"{name} at {factor:g} of its rate" for name, factor in change.rates.items())
    return f"Step {change.step + 1}: {rates} from {change.made_s:.3f} s on, planned {change.planned_s:.3f} s."


def _dip_words(effect: SlowLinkEffect) -> str:
    if effect.begin_s is None:
        return ""
    return (
        f"{effect.what} with {effect.condition}: {effect.sim_slowed_s:.3f} s simulated, {effect.real_slowed_s:.3f} s "
        f"real, {effect.real_slowed_s / effect.sim_slowed_s - 1:+.1%}; healthy {effect.sim_s:.3f} and "
        f"{effect.real_s:.3f} s, {effect.real_s / effect.sim_s - 1:+.1%}."
    )


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
    effects = _step_effects(out, link, SLOW)
    before_s, after_s = _whole(usual), _whole(slowed)
    for delta in deltas(slowed):
        (sim_s, real_s), (sim_slowed_s, real_slowed_s) = before_s[delta.name], after_s[delta.name]
        what = f"{delta.kind.replace('_', '-')} over {_group(delta)}"
        effects.append(_effect(what, link, sim_s, sim_slowed_s, real_s, real_slowed_s))
    return effects


def _step_effects(out: Path, link: str, job: str) -> list[SlowLinkEffect]:
    """Of the plans whose steps were run with the slowed link."""
    effects = []
    for name in sorted(listed(out / job / "sim")):
        plan = name.removeprefix("trace-").removesuffix(".json")
        if not name.startswith("trace-") or plan == SWEEP_PLAN:
            continue
        before, after = (
            step_times(compare(plan, *(read_perfetto(out / each / side / name) for side in ("sim", "real"))))
            for each in (PLANS, job)
        )
        times = (before.sim_s, after.sim_s, before.real_s, after.real_s)
        effects.append(_effect(f"step of {plan}", link, *times))
    return effects


def _dip_effects(out: Path, link: str) -> list[SlowLinkEffect]:
    """Of the plan whose step was run with the link slowed for its middle third."""
    return [
        replace(each, factor=DIP_FACTOR, begin_s=each.sim_s / 3, end_s=2 * each.sim_s / 3)
        for each in _step_effects(out, link, DIP)
    ]


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
