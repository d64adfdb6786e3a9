"""Topologies in and out: a node's XML, as NCCL and RCCL write and read it, as a machine file, and of a machine; what
Slurm's files of switches say."""

from simfrontier.topology.device_arch import (
    ARCHES as ARCHES,
    NONE as NONE,
    DeviceArch as DeviceArch,
    Medium as Medium,
    arch_named as arch_named,
    arch_of_machine as arch_of_machine,
    unknown_arch as unknown_arch,
)
from simfrontier.topology.machine_file import machine_text as machine_text
from simfrontier.topology.nearest_nics import PlacedNics as PlacedNics, placed_nics as placed_nics, way as way
from simfrontier.topology.node_reader import read_node as read_node
from simfrontier.topology.node_topology import MOST_MBIT as MOST_MBIT, NodeTopology as NodeTopology
from simfrontier.topology.of_machine import through_cpus as through_cpus, topology_of as topology_of
from simfrontier.topology.switch_levels import SlurmLevels as SlurmLevels, slurm_levels as slurm_levels
from simfrontier.topology.to_machine import machine_document as machine_document
from simfrontier.topology.write_node import xml_text as xml_text
