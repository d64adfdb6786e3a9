"""One clock for all ranks: how far each rank's monotonic clock is from rank 0's."""

from __future__ import annotations

import time

from simfrontier_real.ranks.world import World

PINGS = 20


def offset_s(world: World, host: str) -> tuple[float, float]:
    """(seconds to add to this rank's monotonic clock to get rank 0's, largest error over all ranks).

    Ranks on rank 0's host share its clock. Of every other host the lowest rank exchanges pings with rank 0; the fastest
    of them bounds the error by half its round trip (Cristian's algorithm). All ranks take part.
    """
    import torch
    import torch.distributed as dist

    hosts = world.all_gather(host)
    speakers = {name: hosts.index(name) for name in dict.fromkeys(hosts)}
    best = (0.0, 0.0)  # (offset, half a round trip)
    for name, speaker in speakers.items():
        if name == hosts[0] or world.rank not in (0, speaker):
            continue
        stamp = torch.zeros(1, dtype=torch.float64)
        for number in range(PINGS):
            if world.rank == 0:
                dist.recv(stamp, src=speaker, group=world.control)
                stamp[0] = time.monotonic()
                dist.send(stamp, dst=speaker, group=world.control)
                continue
            sent = time.monotonic()
            dist.send(stamp, dst=0, group=world.control)
            dist.recv(stamp, src=0, group=world.control)
            half = (time.monotonic() - sent) / 2
            if number == 0 or half < best[1]:
                best = (float(stamp[0]) - (sent + half), half)
    measured = world.all_gather(best)
    return measured[speakers[host]][0], max(error for _, error in measured)
