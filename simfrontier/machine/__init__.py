"""What the hardware is: machines from TOML files in which every number carries its source. Knows no schedule."""

from simfrontier.machine.copies import Copies, Messages
from simfrontier.machine.emulated import Emulation, emulated
from simfrontier.machine.hardware import (
    UPLINK,
    CodecSpeeds,
    Device,
    Dragonfly,
    End,
    FatTree,
    Host,
    Link,
    LinkClass,
    Machine,
    Matmul,
    MatmulForms,
    Node,
    Packets,
    Provenance,
)
from simfrontier.machine.load import MeasuredNumbers, catalog, load_machine
from simfrontier.machine.sizes import SizeError, mesh_sizes

__all__ = [
    "UPLINK",
    "CodecSpeeds",
    "Copies",
    "Device",
    "Dragonfly",
    "Emulation",
    "End",
    "FatTree",
    "Host",
    "Link",
    "LinkClass",
    "Machine",
    "Matmul",
    "MatmulForms",
    "MeasuredNumbers",
    "Messages",
    "Node",
    "Packets",
    "Provenance",
    "SizeError",
    "catalog",
    "emulated",
    "load_machine",
    "mesh_sizes",
]
