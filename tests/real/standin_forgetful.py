"""simfrontier-real on the stand-in for torch.cuda, with streams that wait for no event."""

from __future__ import annotations

from simfrontier_real.cli import main
from tests.real import standin_cuda

if __name__ == "__main__":
    standin_cuda.set_up()
    standin_cuda.Stream.wait_event = lambda stream, event: None  # type: ignore[method-assign]
    main()
