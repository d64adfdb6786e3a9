"""Any node: its XML is read as it was written, and it goes through a machine file and back as the same graph."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings, strategies as st

from simfrontier.core.machine.topology import ARCHES, NodeTopology, topology_of, xml_text
from simfrontier.core.machine.topology.node_topology import LANES, PciLink, PciPlace, TopologyDevice, TopologyNic
from tests.core.topology.test_nodes import bandwidths, graph, made, read

BASES = ("frontier", "perlmutter", "lassen", "a100-node", "dgx-2")


@st.composite
def nodes(draw: st.DrawFn) -> NodeTopology:
    """Devices on a ring of links and some more, in parts of a path each, or on a switch; NICs below bridges."""
    arch = draw(st.sampled_from(ARCHES))
    num_devices = draw(st.integers(2, 9))
    shape = draw(st.sampled_from(["ring", "ring", "parts", "switch"]))
    links: dict[tuple[int, int], int] = {}
    if shape != "switch":
        order = draw(st.permutations(range(num_devices)))
        steps = list(zip(order, order[1:] + order[:1], strict=True))
        if shape == "parts":
            steps = [step for step in steps if draw(st.booleans())] or steps[:1]
        more = st.tuples(st.sampled_from(order), st.sampled_from(order))
        for a, b in [*steps, *(draw(st.lists(more, max_size=8)) if shape == "ring" else [])]:
            if a != b:
                links[min(a, b), max(a, b)] = draw(st.integers(1, 18))
    pci = draw(st.builds(PciLink, transfers=st.sampled_from(sorted(LANES)), width=st.sampled_from([8, 16])))
    per_package = draw(st.sampled_from([size for size in range(1, num_devices + 1) if num_devices % size == 0]))
    cpus = [device // per_package if per_package > 1 else 0 for device in range(num_devices)]
    with_nic = {
        draw(st.integers(first, first + per_package - 1))
        for first in range(0, num_devices if draw(st.booleans()) else 0, per_package)
    }
    places = [
        PciPlace(cpu=cpu, bridges=(f"00{device:02x}:01:00.0",), links=(pci, pci))
        if device in with_nic
        else PciPlace(cpu=cpu, links=(pci,))
        for device, cpu in enumerate(cpus)
    ]
    speed = draw(st.sampled_from([10_000, 100_000, 200_000, 400_000]))
    return NodeTopology(
        version=2 if arch.medium == "xgmi" else 1,
        arch=arch,
        medium=arch.medium,
        cpus=tuple(dict.fromkeys(cpus)),
        devices=tuple(
            TopologyDevice(dev=device, busid=f"00{device:02x}:02:00.0", place=place)
            for device, place in enumerate(places)
        ),
        links=dict(sorted(links.items())),
        to_switch=(draw(st.integers(1, 18)) if shape == "switch" else 0,) * num_devices,
        to_cpu=(0,) * num_devices,
        nics=tuple(
            TopologyNic(
                dev=nic, name=f"n{nic}", busid=f"00{device:02x}:03:00.0", mbit_per_s=speed, place=places[device]
            )
            for nic, device in enumerate(sorted(with_nic))
        ),
    )


@given(topology=nodes())
@settings(deadline=None, max_examples=60)
def test_what_is_written_is_read_as_it_was(topology: NodeTopology) -> None:
    with TemporaryDirectory() as folder:
        assert read(Path(folder), xml_text(topology, 100)) == topology


@given(topology=nodes(), base=st.sampled_from(BASES))
@settings(deadline=None, max_examples=60)
def test_xml_to_machine_to_xml_to_machine_is_the_same_graph(topology: NodeTopology, base: str) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        machine = made(folder, topology, base)
        out = topology_of(machine, topology.arch)
        assert graph(out) == graph(topology)
        again = read(folder, xml_text(out, machine.device.num_compute_units))
        machine_again = made(folder, again, base)
        assert machine_again.node == machine.node
        assert bandwidths(machine_again) == bandwidths(machine)
        assert machine_again.link_classes == machine.link_classes
