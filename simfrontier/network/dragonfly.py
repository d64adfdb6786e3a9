"""Traffic between dragonfly groups onto global pools: a minimal share, the rest by way of third groups."""

import numpy as np
from numpy.typing import NDArray

from simfrontier.network.fabric import Fabric

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

RESIDUE = 1e-12  # what is smaller than this, relative to the largest load, is left over from cancelling


def pool_loads(fabric: Fabric, act: Ints, source: Ints, target: Ints, amount: Floats) -> tuple[Ints, Ints, Floats]:
    """Loads (activity, link, weight), each (activity, link) once, of traffic between groups per activity.

    With G groups and non-minimal share u, a demand d(a,b) puts (1-u) d on pool (a,b), and u/(G-2) d on both (a,c) and
    (c,b) for each third group c. Summed over the demands of an activity, pool (c,d) carries
        alpha d(c,d) + beta (out(c) + in(d)),   beta = u/(G-2),  alpha = 1 - u - 2 beta,
    with out and in the demands that leave c and that reach d. So only group sums are spread, never single demands.
    """
    num_groups, fly = fabric.num_pool_groups, fabric.machine.dragonfly
    across = source != target
    if not num_groups or fly is None or not across.any():
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    act, source, target, amount = act[across], source[across], target[across], amount[across]
    nonminimal = fly.nonminimal_share if num_groups > 2 else 0.0
    beta = nonminimal / max(num_groups - 2, 1)
    keys = [(act * num_groups + source) * num_groups + target]
    loads = [amount * (1.0 - nonminimal - 2.0 * beta)]
    if nonminimal:
        every = np.arange(num_groups)
        leaving, out_sum = _merge(act * num_groups + source, amount)
        reaching, in_sum = _merge(act * num_groups + target, amount)
        away = every != (leaving % num_groups)[:, None]
        keys.append((leaving[:, None] * num_groups + every)[away])
        loads.append(np.broadcast_to(out_sum[:, None] * beta, away.shape)[away])
        away = every != (reaching % num_groups)[:, None]
        number, group = reaching // num_groups, reaching % num_groups
        keys.append((number[:, None] * num_groups**2 + every * num_groups + group[:, None])[away])
        loads.append(np.broadcast_to(in_sum[:, None] * beta, away.shape)[away])
    key, load = _merge(np.concatenate(keys), np.concatenate(loads))
    keep = load > RESIDUE * load.max()
    return key[keep] // num_groups**2, fabric.pool_base + key[keep] % num_groups**2, load[keep]


def _merge(key: Ints, amount: Floats) -> tuple[Ints, Floats]:
    unique, which = np.unique(key, return_inverse=True)
    return unique, np.bincount(which, amount).astype(np.float64, copy=False)
