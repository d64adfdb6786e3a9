"""A machine as it is emulated on one box: the same graph and routes, rates scaled down, messages cut into packets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from annotated_types import Ge, Le

from simfrontier.base.errors import InputError
from simfrontier.base.io import Share
from simfrontier.base.limits import COUNT
from simfrontier.core.machine import CodecSpeeds, Device, LinkClass, Machine, Matmul, Packets, Provenance
from simfrontier_extras.emulation.wiring import FRAME_BYTES

HEADER_BYTES = FRAME_BYTES + 20 + 20 + 12  # Ethernet, IPv4, TCP and its time stamps
# Counted with gloo of torch 2.13 through veth pairs: two headers of gloo of 48 bytes, one in a packet of its own; an
# acknowledgement (66) per two packets; the receiver's word that it is ready (48 + 66) for every message.
MESSAGE_BYTES = 2 * 48 + HEADER_BYTES
REPLY_BYTES = HEADER_BYTES // 2
REPLY_MESSAGE_BYTES = 48 + HEADER_BYTES
COUNTED = "interface counters of single gloo messages (torch 2.13) through veth pairs, packets of 9000 and 1500 bytes"
SOURCE = "scenario emulation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulation:
    """Scaling of a machine: `scale` on the rates of links and devices (latencies stay); packets of at most
    `packet_bytes`, IP and all within it; and what a shaped link that was idle lets through at once."""

    scale: Share
    packet_bytes: Annotated[int, Ge(1280), Le(65535)] = 9000
    burst_bytes: Annotated[int, Ge(1), Le(COUNT.most)] = 18200


def packets_of(emulation: Emulation) -> Packets:
    """Packets with the headers that were counted."""
    return Packets(
        payload_bytes=emulation.packet_bytes - (HEADER_BYTES - FRAME_BYTES),
        header_bytes=HEADER_BYTES,
        message_bytes=MESSAGE_BYTES,
        reply_bytes=REPLY_BYTES,
        reply_message_bytes=REPLY_MESSAGE_BYTES,
    )


def emulated(machine: Machine, emulation: Emulation) -> Machine:
    """The machine that the emulation is of. Raises InputError where the nodes' devices share a bus, which cannot be
    laid out of cables, or the burst does not hold a packet."""
    if machine.node.has_bus:
        text = f"{machine.name} joins its devices by a bus; allowed: a machine with node.links or node.switch"
        raise InputError(text, key=("emulation",))
    frame_bytes = emulation.packet_bytes + FRAME_BYTES
    if emulation.burst_bytes < frame_bytes:
        text = f"got {emulation.burst_bytes}, allowed: at least a packet, {frame_bytes}"
        raise InputError(text, key=("emulation", "burst_bytes"))
    packets, scale = packets_of(emulation), emulation.scale
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
        sources=(*machine.sources, *_counted(packets), *_sources(emulation)),
    )


def _scaled_class(link_class: LinkClass, emulation: Emulation, share: float) -> LinkClass:
    scaled = emulation.scale * link_class.bytes_per_s
    return replace(link_class, bytes_per_s=scaled, share=share, half_bytes=0.0, burst_bytes=emulation.burst_bytes)


def _scaled_device(device: Device, scale: float) -> Device:
    return replace(
        device,
        hbm_bytes_per_s=scale * device.hbm_bytes_per_s,
        peak_flops_per_s=scale * device.peak_flops_per_s,
        matmul_flops_per_s=scale * device.matmul_flops_per_s,
        fp32=_scaled_matmul(device.fp32, scale),
        fp64=_scaled_matmul(device.fp64, scale),
        codecs={name: _scaled_codec(codec, scale) for name, codec in device.codecs.items()},
    )


def _scaled_codec(codec: CodecSpeeds, scale: float) -> CodecSpeeds:
    encoded, decoded = scale * codec.encode_bytes_per_s, scale * codec.decode_bytes_per_s
    return replace(codec, encode_bytes_per_s=encoded, decode_bytes_per_s=decoded)


def _scaled_matmul(matmul: Matmul | None, scale: float) -> Matmul | None:
    if matmul is None:
        return None
    peak, reached = scale * matmul.peak_flops_per_s, scale * matmul.matmul_flops_per_s
    return replace(matmul, peak_flops_per_s=peak, matmul_flops_per_s=reached)


def _counted(packets: Packets) -> tuple[Provenance, ...]:
    """Sources of the bytes that packets and messages carry beside payload."""
    numbers = {
        "header_bytes": packets.header_bytes,
        "message_bytes": packets.message_bytes,
        "reply_bytes": packets.reply_bytes,
        "reply_message_bytes": packets.reply_message_bytes,
    }
    return tuple(
        Provenance(key=f"emulation.{key}", value=value, unit="bytes", kind="measured", source=COUNTED)
        for key, value in numbers.items()
    )


def _sources(emulation: Emulation) -> tuple[Provenance, ...]:
    numbers: Mapping[str, tuple[float, str]] = {
        "scale": (emulation.scale, "ratio"),
        "packet_bytes": (emulation.packet_bytes, "bytes"),
        "burst_bytes": (emulation.burst_bytes, "bytes"),
    }
    return tuple(
        Provenance(key=f"emulation.{key}", value=value, unit=unit, kind="assumed", source=SOURCE)
        for key, (value, unit) in numbers.items()
    )
