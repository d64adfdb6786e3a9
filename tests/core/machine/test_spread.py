"""Distributions of device and network speeds: moments, limits and their effect on a fabric."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as some

from simfrontier.core.machine import Perturbation, SlowDevice, Spread, load_machine
from simfrontier.core.network import Fabric

CLUSTER = load_machine("toy-cluster")  # nodes of 4 devices, 2 packages and 2 NICs of 1 GB/s
NORMAL = Spread(of="devices", distribution="normal", sd=0.08)


def test_moments_of_a_seed() -> None:
    """Of 100,000 draws the mean is known to sd / 316, and the standard deviation to sd / 447: four of each."""
    normal = NORMAL.factors(100_000)
    assert abs(normal.mean() - 1.0) < 4 * 0.08 / 316 and abs(normal.std() - 0.08) < 4 * 0.08 / 447
    logs = np.log(Spread(of="devices", distribution="lognormal", sd=0.1).factors(100_000))
    assert abs(logs.mean()) < 4 * 0.1 / 316 and abs(logs.std() - 0.1) < 4 * 0.1 / 447
    even = Spread(of="networks", distribution="uniform", width=0.24).factors(100_000)
    assert 0.88 <= even.min() < 0.8801 and 1.1199 < even.max() <= 1.12
    assert abs(even.std() - 0.24 / math.sqrt(12)) < 4 * 0.24 / math.sqrt(12) / 447


def test_tails_are_cut_off_and_not_heaped_at_the_ends() -> None:
    """Cut at one standard deviation, a normal has the variance 1 - 2 phi(1) / (2 Phi(1) - 1) = 0.2911 of it."""
    cut = Spread(of="devices", distribution="normal", sd=0.1, most=0.1).factors(100_000)
    assert cut.min() >= 0.9 and cut.max() <= 1.1 and len(np.unique(cut)) > 99_000
    assert cut.std() == pytest.approx(0.1 * math.sqrt(0.2911), rel=0.01)
    wild = Spread(of="devices", distribution="lognormal", sd=1.0, most=0.5).factors(1000)
    assert wild.min() >= 0.5 and wild.max() <= 1.5


def test_the_published_distance_of_two_devices() -> None:
    """8 % on average between two devices, none further than 22 % from the typical one."""
    factors = Spread(name="not-all-gpus-2022").factors(200_000)
    assert np.abs(factors[::2] - factors[1::2]).mean() == pytest.approx(0.08, rel=0.01)
    assert factors.min() >= 0.78 and factors.max() <= 1.22
    assert Spread(name="frontier-gcds").resolved().sd == load_machine("frontier").device.speed_sd


def test_devices_and_networks_of_one_seed_have_nothing_to_do_with_each_other() -> None:
    devices, networks = (Spread(of=of, distribution="normal", sd=0.1).factors(1000) for of in ("devices", "networks"))
    assert abs(np.corrcoef(devices, networks)[0, 1]) < 4 / math.sqrt(1000)


def test_the_published_times_of_calls() -> None:
    """Of many all-gathers: 1.16 ms at least, 1.18, 1.19 and 1.35 not exceeded by 10, 50 and 90 %."""
    shares = (np.arange(100_000) + 0.5) / 100_000
    times_ms = np.sort(1.19 / Spread(name="rccl-calls-lumi").not_exceeded(shares))
    quantiles = times_ms[0], *np.quantile(times_ms, [0.1, 0.5, 0.9])
    assert quantiles == pytest.approx((1.16, 1.18, 1.19, 1.35), rel=1e-3)
    twice = np.log(Spread(name="nccl-runs-perlmutter").not_exceeded(shares))
    assert twice.std() == pytest.approx(0.041, rel=1e-3)


@given(some.integers(1, 500), some.integers(1, 500), some.integers(0, 2**40), some.sampled_from(["normal", "uniform"]))
def test_a_device_has_its_factor_whatever_the_size_of_the_job(short: int, more: int, seed: int, law: Any) -> None:
    how = {"sd": 0.05} if law == "normal" else {"width": 0.1}
    spread = Spread(of="devices", distribution=law, seed=seed, **how)  # type: ignore[arg-type]
    long = spread.factors(short + more)
    assert spread.factors(short).tolist() == long[:short].tolist()
    assert len(np.unique(long)) > 0.9 * len(long)


def test_what_of_a_fabric_differs() -> None:
    devices, networks = NORMAL, Spread(of="networks", listed=(0.5, 1.25))
    fabric = Fabric.build(
        CLUSTER, 2, Perturbation(spread=(devices, networks), slow=(SlowDevice(device=1, factor=0.5),))
    )
    factors = NORMAL.factors(8)
    assert fabric.speed.tolist() == [factors[0], factors[1] * 0.5, *factors[2:]]
    healthy = Fabric.build(CLUSTER, 2).capacity
    changed = np.flatnonzero(fabric.capacity != healthy)
    names = ("nic0>net", "net>nic0", "nic1>net", "net>nic1")
    assert sorted(map(fabric.describe, changed.tolist())) == sorted(
        f"node {n} {name}" for n in (0, 1) for name in names
    )
    assert (fabric.capacity[changed] / healthy[changed]).tolist() == [0.5] * 4 + [1.25] * 4
