"""The scenario table `emulation`: the machine as it is emulated on one computer, with the same graph and routes,
scaled-down rates, and messages split into packets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, TypeVar

from annotated_types import Ge, Le

from simfrontier.base.errors import InputError
from simfrontier.base.io import Share, Strict
from simfrontier.base.limits import COUNT
from simfrontier.core.machine import Device, LinkClass, Machine, Packets, Provenance
from simfrontier.inputs.scenario.added_keys import ScenarioKeys
from simfrontier_extras.emulation.wiring import FRAME_BYTES

if TYPE_CHECKING:
    from simfrontier.inputs.scenario import ScenarioFile


HEADER_BYTES = FRAME_BYTES + 20 + 20 + 12  # Ethernet, IPv4, TCP and its time stamps
# Counted with gloo of torch 2.13 through veth pairs: two headers of gloo of 48 bytes, one in a packet of its own; an
# acknowledgement (66) per two packets; the receiver's word that it is ready (48 + 66) for every message.
MESSAGE_BYTES = 2 * 48 + HEADER_BYTES
REPLY_BYTES = HEADER_BYTES // 2
REPLY_MESSAGE_BYTES = 48 + HEADER_BYTES
COUNTED = "interface counters of single gloo messages (torch 2.13) through veth pairs, packets of 9000 and 1500 bytes"
SOURCE = "scenario emulation"

Rates = TypeVar("Rates")


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulation:
    """Scaling of a machine: factor `scale` on the rates of links and devices (latencies are unchanged); packets of at
    most `packet_bytes`, IP headers and all inside included; and the burst, the bytes that an idle shaped link lets
    through at once."""

    scale: Share
    packet_bytes: Annotated[int, Ge(1280), Le(65535)] = 9000
    burst_bytes: Annotated[int, Ge(1), Le(COUNT.most)] = 18200


def emulated(machine: Machine, emulation: Emulation) -> Machine:
    """Return the machine as it is emulated. Raises InputError if the nodes' devices share a bus, which cannot be laid
    out as cables, or if the burst is smaller than a packet."""
    if machine.node.has_bus:
        text = f"{machine.name} joins its devices by a bus; allowed: a machine with node.links or node.switch"
        raise InputError(text, key=("emulation",))
    frame_bytes = emulation.packet_bytes + FRAME_BYTES
    if emulation.burst_bytes < frame_bytes:
        text = f"got {emulation.burst_bytes}, allowed: at least a packet, {frame_bytes}"
        raise InputError(text, key=("emulation", "burst_bytes"))
    scale = emulation.scale
    packets = Packets(
        payload_bytes=emulation.packet_bytes - (HEADER_BYTES - FRAME_BYTES),
        header_bytes=HEADER_BYTES,
        message_bytes=MESSAGE_BYTES,
        reply_bytes=REPLY_BYTES,
        reply_message_bytes=REPLY_MESSAGE_BYTES,
    )
    share = packets.payload_bytes / (packets.payload_bytes + packets.header_bytes)
    classes = {name: _scaled_class(each, emulation, share) for name, each in machine.link_classes.items()}
    links = tuple(replace(link, bytes_per_s=scale * link.bytes_per_s) for link in machine.node.links)
    fly, tree = machine.dragonfly, machine.fat_tree
    return replace(
        machine,
        title=f"{machine.title}, emulated at {scale:g} of its rates",
        node=replace(machine.node, links=links),
        dragonfly=None if fly is None else replace(fly, bytes_per_s=scale * fly.bytes_per_s),
        fat_tree=None if tree is None else replace(tree, bytes_per_s=scale * tree.bytes_per_s),
        device=_scaled_device(machine.device, scale),
        link_classes=classes,
        packets=packets,
        copies=None,
        sources=(*machine.sources, *_sources(emulation, packets)),
    )


def _scaled_class(link_class: LinkClass, emulation: Emulation, share: float) -> LinkClass:
    scaled = emulation.scale * link_class.bytes_per_s
    return replace(link_class, bytes_per_s=scaled, share=share, half_bytes=0.0, burst_bytes=emulation.burst_bytes)


def _scaled_device(device: Device, scale: float) -> Device:
    """Return the device with all its rates scaled."""
    own = _scaled(device, scale, "hbm_bytes_per_s", "peak_flops_per_s", "matmul_flops_per_s")
    products = {
        name: _scaled(matmul, scale, "peak_flops_per_s", "matmul_flops_per_s")
        for name in ("fp32", "fp64")
        if (matmul := getattr(device, name)) is not None
    }
    speeds = ("encode_bytes_per_s", "decode_bytes_per_s")
    codecs = {name: _scaled(codec, scale, *speeds) for name, codec in device.codecs.items()}
    return replace(own, codecs=codecs, **products)


def _scaled(value: Rates, scale: float, *names: str) -> Rates:
    """Return a dataclass with the named rates scaled."""
    return replace(value, **{name: scale * getattr(value, name) for name in names})  # type: ignore[type-var]


def _sources(emulation: Emulation, packets: Packets) -> Iterator[Provenance]:
    """Yield the sources of the overhead bytes of packets and messages, and of the scenario's own numbers."""
    for name in ("header_bytes", "message_bytes", "reply_bytes", "reply_message_bytes"):
        value = getattr(packets, name)
        yield Provenance(key=f"emulation.{name}", value=value, unit="bytes", kind="measured", source=COUNTED)
    for name, unit in (("scale", "ratio"), ("packet_bytes", "bytes"), ("burst_bytes", "bytes")):
        value = getattr(emulation, name)
        yield Provenance(key=f"emulation.{name}", value=value, unit=unit, kind="assumed", source=SOURCE)


class EmulationKeys(Strict):
    """`emulation`: the machine as it is emulated on one box."""

    emulation: Emulation | None = None


def table_of(file: ScenarioFile) -> Emulation | None:
    """Return the table `emulation` of a scenario file, None if it has none."""
    assert isinstance(file, EmulationKeys)
    return file.emulation


def _machine(file: ScenarioFile, machine: Machine) -> Machine:
    table = table_of(file)
    return machine if table is None else emulated(machine, table)


ADDS = (ScenarioKeys(form=EmulationKeys, machine=_machine),)
