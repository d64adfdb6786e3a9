"""Factors on the speeds of devices and on the rates of network links, and classes of nodes: if many nodes have
different factors, the nodes of one class are simulated with the same factors, so that they fold together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simfrontier.base.arrays import Floats, Ints
from simfrontier.base.errors import InputError
from simfrontier.core.machine import Machine, Perturbation, Spread

MOST_SPEEDS = 32  # device speeds that are simulated individually; with more, nodes are put into classes
MOST_MIXED = 256  # limit of speeds times nodes with different devices: the engine's time grows with both


def classes_of_nodes(speeds: Floats, networks: Floats) -> Ints:
    """Return the class of every node [num_nodes], given the speeds of the node's devices in each state of the machine
    [num_states, num_nodes, devices of a node] and the factors on the rates of the node's network links [num_states,
    num_nodes].

    The node with the slowest living device, the node with the slowest living network links, and nodes with dead
    devices, each in any state, are classes of their own, as a step waits for them. The other nodes are sorted by their
    slowest device and divided into classes of about equal size, as many as keep the number of distinct speeds at
    MOST_SPEEDS. If there are few distinct speeds, every node is a class of its own.
    """
    _, num_nodes, per_node = speeds.shape
    if all(_are_few(speed) for speed in speeds):
        return np.arange(num_nodes)
    slowest = speeds.min(axis=(0, 2))
    alone = set(np.flatnonzero(slowest == 0.0).tolist())
    alone |= {_slowest_living(speed.min(axis=1)) for speed in speeds}
    alone |= {_slowest_living(network) for network in networks if network.min() < network.max()}
    others = [node for node in np.argsort(slowest, kind="stable").tolist() if node not in alone]
    out = np.empty(num_nodes, np.int64)
    out[sorted(alone)] = np.arange(len(alone))
    num_classes = max(1, MOST_SPEEDS // per_node - len(alone))
    for number, nodes in enumerate(np.array_split(np.array(others, np.int64), num_classes), len(alone)):
        out[nodes] = number
    return out


def _are_few(speed: Floats) -> bool:
    """Return whether devices [num_nodes, devices of a node] have few enough distinct speeds to be simulated
    individually."""
    num_speeds, num_different = len(np.unique(speed)), len(np.unique(speed, axis=0))
    return num_speeds <= MOST_SPEEDS and num_speeds * num_different <= MOST_MIXED


def _slowest_living(factors: Floats) -> int:
    """Return the index of the node with the lowest factor above 0; `factors`: [num_nodes]."""
    return int(np.where(factors > 0.0, factors, np.inf).argmin())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClassRates:
    """Factors on the rates of nodes with classes, each array [num_nodes, ...]. `mean`: as simulated, the harmonic mean
    over the nodes of a class, which preserves the mean time; `slowest` and `fastest`: the lowest and the highest factor
    among the nodes of the class at the same position."""

    mean: Floats
    slowest: Floats
    fastest: Floats

    def at(self, index: Ints | tuple[Ints, ...]) -> ClassRates:
        """Return the factors at these indices."""
        return ClassRates(mean=self.mean[index], slowest=self.slowest[index], fastest=self.fastest[index])

    @property
    def largest_difference(self) -> float:
        """Largest relative difference between a node's own factor and the factor of its class; an upper bound of the
        relative error of a time."""
        some = self.mean > 0.0  # dead nodes are classes of their own
        ratios = self.mean[some] / self.slowest[some], self.fastest[some] / self.mean[some]
        return float(np.max(ratios, initial=1.0)) - 1.0


def class_rates(factors: Floats, classes: Ints) -> ClassRates:
    """Return the factors of nodes as simulated with these classes, from the factors of individual nodes [num_nodes,
    ...]."""
    mean, slowest, fastest = factors.copy(), factors.copy(), factors.copy()
    for number in np.flatnonzero(np.bincount(classes) > 1).tolist():
        own = factors[nodes := np.flatnonzero(classes == number)]
        mean[nodes] = 1.0 / (1.0 / own).mean(axis=0)
        slowest[nodes], fastest[nodes] = own.min(axis=0), own.max(axis=0)
    return ClassRates(mean=mean, slowest=slowest, fastest=fastest)


def device_factors(machine: Machine, num_nodes: int, perturbation: Perturbation) -> Floats:
    """Return the factors on the speeds of all devices [num_nodes, devices of a node]. Raises InputError if the
    perturbation names a missing component."""
    per_node, spread = machine.devices_per_node, perturbation.differing("devices")
    num_devices = num_nodes * per_node
    speed = np.ones(num_devices) if spread is None else _factors(perturbation, spread, num_devices)
    for slow in perturbation.slow:
        refuse_beyond("slow device: got", slow.device, num_devices, "devices")
        speed[slow.device] *= slow.factor
    for package in perturbation.packages:
        size = machine.devices_per_package
        refuse_beyond("package: got", package.package, num_devices // size, "packages")
        speed[package.package * size : (package.package + 1) * size] *= package.factor
    for node in perturbation.nodes:
        refuse_beyond("node: got", node.node, num_nodes, "nodes")
        speed[node.node * per_node : (node.node + 1) * per_node] *= node.factor
    return speed.reshape(num_nodes, per_node)


def network_factors(num_nodes: int, perturbation: Perturbation) -> Floats:
    """Return the factors on the rates of the network links of each node [num_nodes]."""
    spread = perturbation.differing("networks")
    return np.ones(num_nodes) if spread is None else _factors(perturbation, spread, num_nodes)


def _factors(perturbation: Perturbation, spread: Spread, num: int) -> Floats:
    try:
        return spread.factors(num)
    except InputError as error:
        number = [each.resolved() for each in perturbation.spread].index(spread)
        raise error.within(key=("perturbation", "spread", number)) from None


def refuse_beyond(what: str, got: int, count: int, things: str, where: str = "this job") -> None:
    """Raise InputError if a perturbation names a component with an index beyond the last."""
    if not got < count:
        raise InputError(f"{what} {got}; {where} has {things} 0 to {count - 1}", key=("perturbation",))
