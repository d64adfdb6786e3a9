"""Steps that cannot be simulated, and jobs beside another that cannot be: each class once."""

from dataclasses import replace
from pathlib import Path

import pytest

from simfrontier.base.errors import InputError
from simfrontier.core.collectives import load_library
from simfrontier.core.cost import EqualGroups
from simfrontier.core.engine import Fidelity, simulate_step
from simfrontier.core.machine import DegradedLink, Perturbation, SlowDevice, Spread, load_machine
from simfrontier.core.program import Mesh
from simfrontier.core.workload import find_model
from tests.core.engine.singles import calls, single
from tests.core.engine.steps import schedule
from tests.core.plan.grids import megatron, schedule_of
from tests.invoke import TOY, refusal

CLUSTER, RCCL = load_machine("toy-cluster"), load_library("rccl")
PAIR = calls(Mesh((("node", 1), ("gcd", 2))), ("all_gather", ("gcd",), 2**20, "a", "library"))
LATE_DEVICE = Perturbation(slow=(SlowDevice(device=0, factor=0.5, from_s=1e-6),))
LATE_LINK = Perturbation(links=(DegradedLink(node=0, link="xgmi 0>1", factor=0.5, from_s=1e-6),))
KERNELS_DIFFER = Perturbation(slow=LATE_DEVICE.slow, spread=(Spread(of="kernels", distribution="normal", sd=0.1),))


@pytest.mark.parametrize(
    ("devices", "stride", "words"),
    [
        (75_272, 1, "frontier: got 75272 devices, allowed: 2 to 75264"),
        (12, 1, "frontier: got 12 devices, allowed above one node: multiples of 8"),
        (24, 16, "frontier: got a stride of 16 over 24 devices, allowed: groups of equal size"),
    ],
)
def test_groups_that_a_machine_cannot_hold(devices: int, stride: int, words: str) -> None:
    with pytest.raises(InputError) as caught:
        EqualGroups(load_machine("frontier"), devices, stride)
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize(
    ("fidelity", "library", "perturbation", "words"),
    [
        (
            "analytic",
            "transfers",
            LATE_DEVICE,
            "fidelity analytic has no rates that change within a step; allowed: flow",
        ),
        ("chunk", "transfers", LATE_DEVICE, "got a device or a memory that changes within a step; allowed: links"),
        ("chunk", "rccl", LATE_LINK, "library rccl paces its messages by the links' rates; allowed: a library"),
        ("flow", "rccl", KERNELS_DIFFER, "calls differ, which is not known of a machine that changes within a step"),
    ],
)
def test_changes_that_a_fidelity_does_not_know(
    fidelity: Fidelity, library: str, perturbation: Perturbation, words: str
) -> None:
    with pytest.raises(InputError) as caught:
        simulate_step(PAIR, CLUSTER, load_library(library), fidelity, perturbation)
    assert words in str(caught.value)


def test_jobs_that_a_machine_or_a_fidelity_cannot_simulate() -> None:
    with pytest.raises(InputError, match=r"^fidelity chunk: got 256 ranks; allowed: up to 128 "):
        single("all_gather", 1024, 256)
    uneven = schedule("hsdp", Mesh((("node", 2), ("package", 3), ("gcd", 1))), find_model("tiny"))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="lie unevenly on the nodes"):
        simulate_step(uneven, CLUSTER, RCCL)
    without_zfp = replace(CLUSTER, device=replace(CLUSTER.device, codecs={}))
    coded = schedule_of(megatron(2, compression="naive-zfp:8", compress_from=0), 4)
    with pytest.raises(
        InputError, match=r"toy-cluster has no speeds of the codec zfp \(device\.codecs\.zfp\); known: none"
    ):
        simulate_step(coded, without_zfp, RCCL)


@pytest.mark.parametrize(
    ("own", "settings", "words"),
    [
        ("", ["scenario=no.toml"], "scenario: no.toml: cannot read this scenario"),
        ("", ["plan=zero4"], 'plan: plan "zero4": did you mean "zero3"?'),
        ("", ["devices=64"], "devices: got 64 devices on 16 nodes; toy-cluster has 14 left"),
        ("\n[nodes]\nlist = [1, 5, 9]\n", ["devices=8"], "scenario: node 1 is of both jobs; allowed: others"),
    ],
)
def test_jobs_beside_another(tmp_path: Path, own: str, settings: list[str], words: str) -> None:
    other = tmp_path / "other.toml"
    other.write_text(TOY.read_text(encoding="utf-8").replace("[2, 4, 8, 16]", "[8]") + own, encoding="utf-8")
    given = [word for each in [f"scenario={other}", *settings] for word in ("--set", f"neighbour.{each}")]
    got = refusal("run", TOY, "--devices", "8", "--plans", "zero3", "--out", tmp_path / "out", *given)
    assert "neighbour." in got and words in got
