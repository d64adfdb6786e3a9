"""A rank that is alone makes every call of a backend, on a stream of its own where there are any; all give back what
they were given."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import Any

import torch

from simfrontier.core.program import CollectiveKind
from simfrontier_real.ranks.processes import TorchTransport
from simfrontier_real.ranks.session import session
from simfrontier_real.ranks.transport import Channel

COUNT = 1000
SHAPES: dict[CollectiveKind, tuple[int, ...]] = {
    "all_gather": (COUNT,),
    "all_reduce": (COUNT,),
    "reduce_scatter": (1, COUNT),
    "all_to_all": (1, COUNT),
}
RESULTS: dict[CollectiveKind, tuple[int, ...]] = SHAPES | {"all_gather": (1, COUNT), "reduce_scatter": (COUNT,)}
DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.uint8)


def main(backend: str) -> None:
    made = 0
    with session([], backend, True, 60.0, 60.0) as opened:
        transport, device = opened.transport, opened.world.device
        assert isinstance(transport, TorchTransport)
        channel = Channel("alone", "lane", ())
        transport._wires[channel] = transport._made(channel, [(0,)])
        cuda: Any = torch.cuda
        with nullcontext() if device == "cpu" else cuda.stream(cuda.Stream(device)):
            for kind, shape in SHAPES.items():
                for dtype in DTYPES:
                    message = (torch.arange(COUNT, device=device) % 200).to(dtype).reshape(shape)
                    result = transport.call(channel, kind, message.clone()).wait()
                    assert result.shape == RESULTS[kind] and result.device == message.device, (kind, dtype)
                    assert torch.equal(result.reshape(-1), message.reshape(-1)), (kind, dtype)
                    made += 1
    sys.stdout.write(f"{made} calls\n")


if __name__ == "__main__":
    main(sys.argv[1])
