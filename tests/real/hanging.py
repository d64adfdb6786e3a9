"""Be rank 1 of two with signs of life, whose own thread hangs; rank 0 holds the store. Arguments: after how many
seconds without a sign of life the run ends, and for how many this rank hangs, which ends by itself after them."""

import os
import sys
import time
from datetime import timedelta

import torch.distributed as dist

from simfrontier_real.heartbeat import Heartbeat

LONG_S = 120.0


def connected(port: int, listens: bool = False) -> dist.TCPStore:
    return dist.TCPStore("127.0.0.1", port, None, listens, timeout=timedelta(seconds=30), wait_for_workers=False)


if __name__ == "__main__":
    limit_s, hangs_s = map(float, sys.argv[1:])
    store = connected(int(os.environ["MASTER_PORT"]))
    heartbeat = Heartbeat(1, 2, store, 0, limit_s)
    if hangs_s < LONG_S:
        heartbeat.end_by_itself()
    heartbeat.start()
    store.set("hangs", "")
    time.sleep(hangs_s)
    os._exit(7)
