"""Error bars: sampling of the known uncertainties of a machine and its library, and the resulting step times.

Every random number belongs to an entity that plans share, not to a position in a program, so that samples of two plans
at one size are paired: sample 17 of both has the same slow device, the same error of the GEMM model, and the same error
of the library's model for the same kind of collective call. Only the noise of single calls differs between plans.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.arrays import Floats
from simfrontier.core.collectives import Library, Residual, call_of, message_bytes
from simfrontier.core.cost import pair_shape
from simfrontier.core.engine import DurationFactors, SimulatedStep, resampled_s, resampled_waits
from simfrontier.core.machine import Machine
from simfrontier.core.program import DIRECT, CollectiveKind, Compute, Exchange, SegmentedProgram, is_wait

NORMAL_90 = 1.6448536269514722  # half the width of a normal's central 90 %, in standard deviations
QUANTILES = (0.05, 0.5, 0.95)  # the lower end of a band, its middle, and its upper end


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Known uncertainties as standard deviations of log time; 0 if unknown.

    `law`: of the library's model, and of single collective calls. `speed_sd`: between devices of the machine.
    `matmul_sd`: of the model of matrix products. `call_sd`: of a kernel on a device, from one launch to the next.
    """

    law: Residual
    speed_sd: float
    matmul_sd: float
    call_sd: float = 0.0

    @property
    def is_known(self) -> bool:
        """Return whether there is anything to sample."""
        of_law = (self.law.model_sd, self.law.small_sd, self.law.run_sd, *self.law.of_kind.values())
        return max(*of_law, self.speed_sd, self.matmul_sd, self.call_sd) > 0.0


def spread_of(machine: Machine, library: Library) -> Spread:
    """Return the uncertainties that a machine and a library state."""
    return Spread(
        law=library.residual or Residual(model_sd=0.0, run_sd=0.0),
        speed_sd=machine.device.speed_sd,
        matmul_sd=machine.device.matmul_sd,
        call_sd=machine.device.call_sd,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Waits:
    """Sampled times of one step (`step_s`) and waiting times, in seconds, each [num_samples].

    `in_step_s`: additional step time relative to a step in which all devices and kernel launches are nominal, i.e. the
    time that a nominal rank waits for others because of this variation. `in_calls_s`: by name of call, the time from
    when a nominal rank is ready until the last rank of its group is ready, per step, averaged over ranks; calls that
    overlap kernels may wait without delaying the step.
    """

    step_s: Floats
    in_step_s: Floats
    in_calls_s: Mapping[str, Floats]


def sampled_waits(step: SimulatedStep, plan: str, num_samples: int, seed: int) -> Waits | None:
    """Return the samples of `sampled_step_s` with their waiting times; None if there are no samples, or if neither
    variation between devices nor between launches is known.
    """
    spread = spread_of(step.pricing.machine, step.pricing.library)
    if num_samples == 0 or not (spread.speed_sd or spread.call_sd):
        return None
    made = factors(step, spread, plan, num_samples, seed)
    step_s = resampled_s(step, made)
    alike = replace(made, of_class=np.ones_like(made.of_class), call_sd=0.0, of_run=None)
    in_step_s = step_s - resampled_s(step, alike)
    return Waits(step_s=step_s, in_step_s=in_step_s, in_calls_s=resampled_waits(step, made))


def sampled_step_s(step: SimulatedStep, plan: str, num_samples: int, seed: int) -> Floats | None:
    """Return sampled step times in seconds [num_samples], reproducible for a seed; None if no uncertainty is known.

    `plan` names the random stream of the noise that is specific to the plan.
    """
    spread = spread_of(step.pricing.machine, step.pricing.library)
    if not spread.is_known or num_samples == 0:
        return None
    return resampled_s(step, factors(step, spread, plan, num_samples, seed))


def factors(step: SimulatedStep, spread: Spread, plan: str, num_samples: int, seed: int) -> DurationFactors:
    """Return log-normal factors of median 1 on the durations of a step's ops.

    A collective takes exp(sd z + run_sd y) times as long, sd by kind and size of the call that carries it
    (`Residual.sd`), z by kind of collective (none where its time was measured), y by role and node; all groups of an op
    share both. With c = `common_share`, z is sqrt(c) of a number that all sizes of message of a kind have in common,
    and sqrt(1 - c) of one of the size's own. An exchange errs as the all-to-all of two ranks that it is priced as. A
    matrix product takes exp(matmul_sd x), x by sample alone. What a device does by itself takes, besides, what the
    slowest of its rank class takes (`slowest`).
    """
    draws = Draws(seed=seed, num_samples=num_samples)
    folding = step.pricing.folding
    return DurationFactors(
        of_op=_errors(step, spread, draws),
        of_class=np.exp(spread.speed_sd * slowest(folding.rank_class, folding.representative, draws)),
        on_device={op.number: isinstance(op, Compute) and not is_wait(op) for op in step.schedule.ops},
        run_sd=spread.law.run_sd,
        noise=[_noise(role.segmented, plan, step.schedule.mesh.num_ranks, draws) for role in step.roles],
        call_sd=spread.call_sd,
        of_run=partial(_slowest_of_run, step, plan, draws) if spread.call_sd else None,
    )


def _slowest_of_run(step: SimulatedStep, plan: str, draws: Draws, role: int, run: int) -> Floats:
    """Return how much longer a run of kernels takes on the slowest member of each rank class of a role, in standard
    deviations [num_rank_classes of the role, num_samples]: for m members at -ln(1 - p) = E / m, as in `slowest`.
    """
    from scipy.special import ndtri

    classes = np.array(step.roles[role].classes)
    members = np.bincount(step.pricing.folding.rank_class)[classes]
    stream = draws.stream("launches", step.schedule.mesh.num_ranks, plan, role, run)
    depth = stream.standard_exponential((len(classes), draws.num_samples)) / members[:, None]
    share = np.clip(-np.expm1(-depth), np.finfo(float).tiny, 1.0 - np.finfo(float).epsneg)
    out: Floats = -ndtri(share)
    return out


def _noise(part: SegmentedProgram, plan: str, devices: int, draws: Draws) -> Floats:
    """Return the noise of single calls by program node [num_nodes, num_samples]; 0 for single kernels."""
    each = zip(part.program.ops, part.blocks, strict=True)
    calls = np.array([block is not None or not isinstance(op, Compute) for op, block in each], bool)
    place = () if part.role.at is None else part.role.at[1:]
    out = np.zeros((len(calls), draws.num_samples))
    out[calls] = draws.stream("run", devices, plan, *place).standard_normal((draws.num_samples, int(calls.sum()))).T
    return out


def slowest(rank_class: NDArray[np.integer], representative: NDArray[np.integer], draws: Draws) -> Floats:
    """Return how slow the slowest device of each rank class is, in standard deviations [num_rank_classes, num_samples].

    Of n devices, of which each is slower than z with probability p(z), the slowest is at -ln(1 - p) = E / n, with E
    exponential of mean 1, as (1 - p)^n is uniform. Which rank that is, is uniform too. E and that rank are drawn once
    for the machine, the same for every plan. Each other class, of m devices, is no slower: among what is not slower its
    slowest is at -ln(1 - p) = E / n + E' / m, with an E' of its own.
    """
    n, members = len(rank_class), np.bincount(rank_class)
    common = draws.stream("slowest", n).standard_exponential(draws.num_samples) / n
    holder = rank_class[draws.stream("holder", n).integers(n, size=draws.num_samples)]
    depth = np.tile(common, (len(members), 1))
    for number, (first, count) in enumerate(zip(representative.tolist(), members.tolist(), strict=True)):
        own = draws.stream("class", n, first, count).standard_exponential(draws.num_samples) / count
        depth[number] += np.where(holder == number, 0.0, own)
    share = np.clip(-np.expm1(-depth), np.finfo(float).tiny, 1.0 - np.finfo(float).epsneg)  # that is slower: p
    return -_normal_quantiles(share)


def band_of(samples: Floats) -> tuple[float, float, float]:
    """Return the range of 90 % of samples with their median: the 5 %, the 50 % and the 95 % quantile."""
    low, middle, high = np.quantile(samples, QUANTILES).tolist()
    return low, middle, high


def probability_faster(samples: Floats, others: Floats) -> float:
    """Return the share of paired samples in which the first step takes less time; equal times count half."""
    return float(np.mean(samples < others) + 0.5 * np.mean(samples == others))


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """Named streams of random numbers: independent of who asks for a stream and when; a larger number of samples begins
    with the samples of a smaller one.
    """

    seed: int
    num_samples: int

    def stream(self, *key: str | int) -> np.random.Generator:
        """Return the random generator of the named entity; names are hashed, so that streams do not overlap."""
        return np.random.default_rng(int.from_bytes(sha256(repr((self.seed, *key)).encode()).digest(), "big"))

    def of(self, *key: str | int) -> Floats:
        """Return the standard normal numbers, one for each sample."""
        return self.stream(*key).standard_normal(self.num_samples)


def _errors(step: SimulatedStep, spread: Spread, draws: Draws) -> dict[int, Floats]:
    """Return logarithms of systematic errors [num_samples] by op index; ops without such an error are left out."""
    pricing, schedule = step.pricing, step.schedule
    matmul = spread.matmul_sd * draws.of("matmul")
    out: dict[int, Floats] = {}
    call: CollectiveKind
    for op in schedule.ops:
        if isinstance(op, Compute):
            if op.matmul is not None:
                out[op.number] = matmul
            continue
        if isinstance(op, Exchange):  # priced as the all-to-all of two ranks
            kind, call, algorithm = "all_to_all", "all_to_all", DIRECT
            shape, size = pair_shape(pricing.pattern_of(op).edges.sum(axis=0)), int(pricing.volume_bytes(op))
        elif pricing.table(op) is None:
            kind, call, algorithm = op.kind, call_of(op) or op.kind, pricing.algorithms[op.number]
            shape, size = pricing.shape(op.axes), message_bytes(op, schedule.tensors, schedule.mesh)
        else:
            continue
        named = (kind, algorithm, shape.size, shape.num_nodes, shape.num_packages)
        out[op.number] = spread.law.sd(call, size, shape.num_nodes) * _error(step, spread, draws, named, size)
    return out


def _error(step: SimulatedStep, spread: Spread, draws: Draws, kind: tuple[str | int, ...], size: int) -> Floats:
    """Return the error of the library's model for a kind of call with messages of this size, in standard deviations."""
    common = draws.of("call", step.schedule.mesh.num_ranks, *kind)
    own = draws.of("call", step.schedule.mesh.num_ranks, *kind, size)
    share = spread.law.common_share
    mixed: Floats = np.sqrt(share) * common + np.sqrt(1.0 - share) * own
    return mixed


def _normal_quantiles(shares: Floats) -> Floats:
    """Return the standard normal's quantiles of an array (Wichura's AS 241, exact in the lower tail)."""
    flat: list[float] = shares.ravel().tolist()
    return np.array(list(map(NormalDist().inv_cdf, flat))).reshape(shares.shape)
