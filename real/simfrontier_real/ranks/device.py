"""Device of a rank's tensors: the host or a GPU; detection of torch and its GPU."""

from __future__ import annotations

from importlib.util import find_spec

from simfrontier.base.errors import InputError

NO_GPU = "this machine has no GPU that torch can use"


def device_kind(backend: str, kind: str | None) -> str:
    """Return the kind of device for tensors, cpu or cuda; `kind` is the value of --device. Raises InputError for a kind
    that the backend does not support, and for cuda if there is no GPU."""
    if backend == "nccl" and kind == "cpu":
        raise InputError("got 'cpu' beside --backend nccl, which needs a GPU; allowed: cuda", where="--device")
    if kind != "cuda" and backend != "nccl":
        return "cpu"
    if not has_gpu():
        where, other = ("--device cuda", "cpu") if kind == "cuda" else ("--backend nccl", "gloo")
        raise InputError(f"{NO_GPU}; allowed: {other}", where=where)
    return "cuda"


def has_gpu() -> bool:
    """Return whether torch is installed and has a GPU (NVIDIA or AMD, both of which torch names cuda)."""
    if find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())
