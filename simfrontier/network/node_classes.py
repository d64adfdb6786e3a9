"""Classes of nodes, for machines of many device speeds: nodes of one class have the same speeds, and fold together."""

from __future__ import annotations

import numpy as np

from simfrontier.arrays import Floats, Ints

MOST_SPEEDS = 32  # device speeds that are simulated as they are; with more, nodes are put into classes


def node_classes(speed: Floats, network: Floats) -> Ints:
    """The class of every node [num_nodes], where its devices have these speeds [num_nodes, devices of a node] and its
    links to the network these factors on their rates [num_nodes].

    The node of the slowest device, that of the slowest network, and those with dead devices are classes by themselves,
    as a step waits for them. The others are sorted by their slowest devices, in classes of about equal counts, as many
    as leave MOST_SPEEDS speeds. With at most so many speeds, every node is a class.
    """
    num_nodes, per_node = speed.shape
    if len(np.unique(speed)) <= MOST_SPEEDS:
        return np.arange(num_nodes)
    slowest = speed.min(axis=1)
    alone = set(np.flatnonzero(slowest == 0.0).tolist()) | {int(slowest.argmin())}
    if network.min() < network.max():
        alone.add(int(network.argmin()))
    others = [node for node in np.argsort(slowest, kind="stable").tolist() if node not in alone]
    out = np.empty(num_nodes, np.int64)
    out[sorted(alone)] = np.arange(len(alone))
    num_classes = max(1, MOST_SPEEDS // per_node - len(alone))
    for number, nodes in enumerate(np.array_split(np.array(others, np.int64), num_classes), len(alone)):
        out[nodes] = number
    return out


def class_means(factors: Floats, classes: Ints) -> Floats:
    """Factors on rates [num_nodes, ...] with those of a class at their harmonic mean, which keeps its mean time."""
    out = factors.copy()
    for number in np.unique(classes).tolist():
        nodes = np.flatnonzero(classes == number)
        if len(nodes) > 1:
            out[nodes] = 1.0 / (1.0 / factors[nodes]).mean(axis=0)
    return out


def largest_difference(one: Floats, other: Floats) -> float:
    """The largest relative difference of factors, 0 where both are dead; of a time, it is at most so much."""
    some = one > 0.0
    ratio = one[some] / other[some]
    return float(np.maximum(ratio, 1.0 / ratio).max(initial=1.0)) - 1.0
