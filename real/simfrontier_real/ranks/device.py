"""The device that tensors of a rank are on: the host or a GPU, and whether torch has one."""

from __future__ import annotations

from importlib.util import find_spec

from simfrontier.base.errors import InputError

NO_GPU = "this machine has no GPU that torch can use"


def device_kind(backend: str, kind: str | None) -> str:
    """Return the kind of device that tensors are on, cpu or cuda; `kind` is the value of --device. Raises InputError
    for one that the backend cannot use, and for cuda without a GPU."""
    if backend == "nccl" and kind == "cpu":
        raise InputError("got 'cpu' beside --backend nccl, which needs a GPU; allowed: cuda", where="--device")
    if kind != "cuda" and backend != "nccl":
        return "cpu"
    if not has_gpu():
        where, other = ("--device cuda", "cpu") if kind == "cuda" else ("--backend nccl", "gloo")
        raise InputError(f"{NO_GPU}; allowed: {other}", where=where)
    return "cuda"


def has_gpu() -> bool:
    """Return whether torch is installed and has a GPU (NVIDIA's, or AMD's, which torch calls cuda as well)."""
    if find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def refuse_without_torch() -> None:
    """Raise InputError where torch is not installed."""
    if find_spec("torch") is None:
        raise InputError("torch is not installed, which running for real needs; make setup-real installs it")
