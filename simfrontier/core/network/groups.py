"""Nodes of the machine that a job occupies, and the dragonfly group or fat-tree leaf of each of them."""

from __future__ import annotations

import numpy as np

from simfrontier.base.arrays import Ints
from simfrontier.core.machine import Machine
from simfrontier.core.network.hashes import mix


def nodes_of_job(machine: Machine, num_nodes: int) -> Ints:
    """Return the machine's nodes of a job [num_nodes], in the order in which its ranks fill them."""
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
    """Return the group of each node of a job [num_nodes]; all in group 0 if the machine has no groups."""
    return _group_of_all(machine)[nodes_of_job(machine, num_nodes)]


def num_unlike(passed: Ints) -> int:
    """Return the number of distinct pipelines by the groups of the nodes that they pass [num_pipelines, num_stages]:
    the number of rank classes grows with it, not with the number of ranks. All pipelines within one group are
    equivalent, whichever group it is."""
    within = (passed == passed[:, :1]).all(axis=1)
    return len(np.unique(passed[~within], axis=0)) + bool(within.any())


def _group_of_all(machine: Machine) -> Ints:
    """Return the group of each node of the machine [num nodes of the machine]."""
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
    """Return for each node the number of lower-numbered nodes in its group."""
    order = np.argsort(group_of, kind="stable")
    counts = np.bincount(group_of)
    turn = np.empty(len(group_of), np.int64)
    turn[order] = np.arange(len(group_of)) - np.repeat(np.cumsum(counts) - counts, counts)
    return turn
