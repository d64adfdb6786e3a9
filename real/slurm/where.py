"""One line per rank: its host, device with PCI bus, and cores; to see that ranks are bound as the schedule means."""

from __future__ import annotations

import os
import socket
import sys


def place() -> str:
    """What this process sees of its place."""
    import torch

    rank, size = os.environ.get("SLURM_PROCID", "0"), os.environ.get("SLURM_NTASKS", "1")
    local = int(os.environ.get("SLURM_LOCALID", "0"))
    device = "no GPU"
    if torch.cuda.is_available():
        count = torch.cuda.device_count()
        properties = torch.cuda.get_device_properties(local % count)  # as simfrontier_real.ranks.world chooses
        bus = getattr(properties, "pci_bus_id", None)
        device = (
            f"cuda:{local % count} of {count}, {properties.name}, PCI bus {'unknown' if bus is None else f'{bus:02x}'}"
        )
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    where = f"rank {rank} of {size}, place {local} on {socket.gethostname()}"
    return f"{where}: {device}; cores {cores}; torch {torch.__version__}"


if __name__ == "__main__":
    sys.stdout.write(place() + "\n")
