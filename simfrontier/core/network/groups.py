"""Nodes of the machine that a job occupies, and the dragonfly group or fat-tree leaf of each of them."""

from __future__ import annotations

import numpy as np

from simfrontier.base.arrays import Ints
from simfrontier.core.machine import Machine
from simfrontier.core.network.hashes import mix


def nodes_of_job(machine: Machine, num_nodes: int) -> Ints:
    """Return the ids of the machine's nodes that a job occupies [num_nodes], in the order in which ranks fill them."""
    job = machine.job_nodes
    match job.placement:
        case "contiguous":
            return np.arange(num_nodes)
        case "list":
            assert num_nodes <= len(job.listed), (num_nodes, machine.name)
            return np.array(job.listed[:num_nodes], np.int64)
        case "spread":
            turn = _turn(_group_of_all(machine))
            return np.sort(np.lexsort((np.arange(len(turn)), turn))[:num_nodes])
        case "random":
            count = len(_group_of_all(machine))
            word = mix(np.arange(count, dtype=np.uint64) ^ mix(np.array([job.seed], np.uint64)))
            return np.sort(np.argsort(word, kind="stable")[:num_nodes])


def groups_of_job(machine: Machine, num_nodes: int) -> Ints:
    """Return the network group (dragonfly group or fat-tree leaf) of each node of a job [num_nodes]; 0 for all nodes if
    the machine has no groups."""
    return _group_of_all(machine)[nodes_of_job(machine, num_nodes)]


def num_unlike(passed: Ints) -> int:
    """Return the number of distinct kinds of pipelines. `passed`: the network group of the node of each stage
    [num_pipelines, num_stages].

    Two pipelines are alike if they pass the same groups in the same order; all pipelines within a single group are
    alike, whichever group it is. The number of rank classes grows with the number of kinds, not with the number of
    ranks.
    """
    within = (passed == passed[:, :1]).all(axis=1)
    return len(np.unique(passed[~within], axis=0)) + bool(within.any())


def _group_of_all(machine: Machine) -> Ints:
    """Return the network group of each node of the machine [number of nodes of the machine]."""
    if machine.job_nodes.group_of:
        return np.array(machine.job_nodes.group_of, np.int64)
    fly, tree = machine.dragonfly, machine.fat_tree
    per_group = machine.num_nodes
    if fly is not None:
        per_group = fly.nodes_per_group
    elif tree is not None:
        per_group = tree.nodes_per_leaf
    return np.arange(machine.num_nodes) // per_group


def _turn(group_of: Ints) -> Ints:
    """Return for each node the number of nodes with a lower id in the same group."""
    order = np.argsort(group_of, kind="stable")
    counts = np.bincount(group_of)
    turn = np.empty(len(group_of), np.int64)
    turn[order] = np.arange(len(group_of)) - np.repeat(np.cumsum(counts) - counts, counts)
    return turn
