"""Rank and number of ranks of this process, from torchrun or srun; joining the other ranks."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from simfrontier.base.errors import InputError, SimfrontierError
from simfrontier_real.ranks.device import device_kind

_devices: dict[str, Any] = {}  # by the network interface that gloo uses
_NUM_THREADS = 2  # of a group, as torch has it


@contextmanager
def shared_device() -> Iterator[None]:
    """Let all gloo groups created in this block share the process's gloo device on the current network interface. Each
    gloo device has a polling thread: one shared device uses 0.9 % of a core per rank, one device per group 2.7 %.

    torch has no option for this; if its internals differ from those of version 2.13, each group gets its own device.
    """
    from torch.distributed import distributed_c10d as inside

    group_class: Any = getattr(inside, "ProcessGroupGloo", None)
    if not all(hasattr(group_class, name) for name in ("_Options", "create_device", "create_default_device")):
        yield
        return
    interface = os.environ.get("GLOO_SOCKET_IFNAME", "")
    if interface not in _devices:
        make = group_class.create_device
        _devices[interface] = make(interface=interface) if interface else group_class.create_default_device()
    device = _devices[interface]

    class OnSharedDevice(group_class):  # type: ignore[misc]
        def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
            options = group_class._Options()
            options._devices, options._timeout, options._threads = [device], timeout, _NUM_THREADS
            super().__init__(store, rank, size, options)

    inside.ProcessGroupGloo = OnSharedDevice  # type: ignore[misc]
    try:
        yield
    finally:
        inside.ProcessGroupGloo = group_class  # type: ignore[misc]


PR_SET_PDEATHSIG = 1  # <sys/prctl.h>


def die_with_parent() -> None:
    """On Linux, let the kernel kill this process when the thread that started it ends; elsewhere do nothing."""
    if sys.platform == "linux":
        import ctypes

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


T = TypeVar("T")
_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
_SRUN = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")
DEFAULT_PORT = 29500
LINGER_S = 3.0  # a launcher ends all ranks with the first that ends: by then another one must have reported why
GLOO_DEVICE = "GLOO_SOCKET_IFNAME"  # the network interface that gloo is to use
# Set in an emulated fabric: the device of what the schedule sends, and that of everything else (store, control group)
DATA_DEVICE, CONTROL_DEVICE = "SIMFRONTIER_DATA_IFNAME", "SIMFRONTIER_CONTROL_IFNAME"
STARTED_BY = "SIMFRONTIER_STARTED_BY"  # the id of a process with which this one is to end
LATER_S = 10.0


class LostRankError(SimfrontierError):
    """Error: another rank has exited or does not respond."""


class ReportedElsewhereError(SimfrontierError):
    """Error that another rank has already reported; this rank exits without a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankAddress:
    """Rank of this process among `size` ranks; rank 0 listens at `address:port`."""

    rank: int
    size: int
    local_rank: int
    address: str
    port: int


def place_of(environment: Mapping[str, str]) -> RankAddress:
    """Return the rank, the number of ranks and the address that torchrun or srun set, or rank 0 of 1 if neither did.
    Raises InputError if some of the variables are missing."""
    for keys in (_TORCHRUN, _SRUN):
        there = [key for key in keys if key in environment]
        if there == list(keys):
            rank, size, local = (_number(key, environment[key]) for key in keys)
            if rank >= size:
                raise InputError(f"got {rank}; allowed: 0 to {size - 1} ({keys[1]} is {size})", where=keys[0])
            address = environment.get("MASTER_ADDR", "127.0.0.1" if size == 1 else "")
            if not address:
                raise InputError("MASTER_ADDR is not set; allowed: the host of rank 0 (see real/slurm/README.md)")
            port = _number("MASTER_PORT", environment.get("MASTER_PORT", str(DEFAULT_PORT)))
            return RankAddress(rank=rank, size=size, local_rank=local, address=address, port=port)
    if any(key in environment for key in _TORCHRUN):
        missing = ", ".join(key for key in _TORCHRUN if key not in environment)
        raise InputError(f"the launcher did not set {missing}; start with torchrun or srun")
    return RankAddress(rank=0, size=1, local_rank=0, address="127.0.0.1", port=0)


def _number(key: str, text: str) -> int:
    if not text.isdecimal():
        raise InputError(f"got {text!r}; allowed: a whole number", where=key)
    return int(text)


@dataclass
class World:
    """The joined ranks: torch's default process group, and the key-value store that the ranks share."""

    place: RankAddress
    backend: str
    device: str
    store: Any
    control: Any  # a gloo group of all ranks, for messages that are not of the schedule
    between_steps: Any  # the same with the timeout of a step
    timeout_s: float

    @property
    def rank(self) -> int:
        return self.place.rank

    @property
    def size(self) -> int:
        return self.place.size

    @property
    def goes_through_host(self) -> bool:
        """True if messages of device buffers are copied through host memory."""
        return self.backend == "gloo" and self.device != "cpu"

    def begin_step(self, number: int) -> None:
        """Record in the store which step this rank runs, counted from 0; the launcher reports it if the rank dies."""
        with suppress(RuntimeError):  # the store has ended with its rank; ranks waiting for that rank report it
            self.store.set(step_key(self.rank), str(number + 1))

    def gather(self, value: Any) -> list[Any] | None:
        """Return the values of all ranks on rank 0, None elsewhere."""
        import torch.distributed as dist

        out: list[Any] | None = [None] * self.size if self.rank == 0 else None
        dist.gather_object(value, out, dst=0, group=self.control)
        return out

    def all_gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks."""
        import torch.distributed as dist

        out: list[Any] = [None] * self.size
        dist.all_gather_object(out, value, group=self.control)
        return out

    def run_on_all(self, work: Callable[[], T]) -> T:
        """Run `work` on every rank and return this rank's result. If it fails, the error of the first failing rank is
        raised on all ranks, so that none waits for a rank that has exited."""
        done: list[T] = []
        fault: SimfrontierError | None = None
        try:
            done.append(work())
        except SimfrontierError as error:
            fault = error
        everybody = self.all_gather(None if fault is None else (str(fault), fault.exit_code))
        faults = {rank: message for rank, message in enumerate(everybody) if message is not None}
        if faults:
            text, code = next(iter(faults.values()))
            who = "" if len(faults) == self.size else f"rank {', '.join(map(str, faults))}: "
            raise (InputError if code == InputError.exit_code else SimfrontierError)(who + str(text))
        return done[0]

    def barrier(self) -> None:
        """Wait for all ranks, without a timeout."""
        import torch.distributed as dist

        dist.barrier(group=self.control)

    def barrier_of_step(self) -> None:
        """Wait until all ranks begin a step. Raises SimfrontierError that names a rank that does not arrive within the
        timeout."""
        import torch.distributed as dist

        try:
            # only rank 0 learns who is late: it gives up before the others give up waiting for it
            limit_s = max(self.timeout_s - LATER_S, 1.0)
            dist.monitored_barrier(self.between_steps, timedelta(seconds=limit_s), wait_all_ranks=True)
            dist.barrier(group=self.between_steps)  # releases all ranks at once
        except RuntimeError as error:
            late = re.search(
                r"Ranks ([\d, ]+) failed to pass|errors while waiting for send/recv from rank (0)", str(error)
            )
            if late is None:
                raise
            who = late[1] or late[2]
            text = f"rank {who} does not come to the next step (stopped, or lost with its host); the run ends"
            raise (SimfrontierError if late[1] else LostRankError)(text) from None


def step_key(rank: int) -> str:
    """Return the store's key for the step that a rank runs, counted from 1."""
    return f"step/{rank}"


def join(place: RankAddress, backend: str, join_s: float, timeout_s: float, kind: str | None = None) -> World:
    """Join the other ranks within `join_s` seconds. Raises SimfrontierError if the port is in use or a rank is missing.

    Collectives of gloo and nccl fail after `timeout_s` seconds. `kind` is the kind of device of the tensors, cpu or
    cuda (None: the backend's default).
    """
    import torch
    import torch.distributed as dist
    from torch._C._distributed_c10d import PrefixStore

    device = device_kind(backend, kind)
    if device == "cuda":
        device = f"cuda:{place.local_rank % torch.cuda.device_count()}"
        torch.cuda.set_device(device)
    if backend == "gloo":
        torch.set_num_threads(1)  # ranks share the cores
    if DATA_DEVICE in os.environ:
        os.environ[GLOO_DEVICE] = os.environ[DATA_DEVICE]
    store = _store(place, join_s)
    _wait_for_all(store, place, join_s)
    timeout = timedelta(seconds=timeout_s)
    try:
        with shared_device():
            dist.init_process_group(
                backend, store=PrefixStore("world", store), rank=place.rank, world_size=place.size, timeout=timeout
            )
        with _control_interface(), shared_device():
            control = dist.new_group(backend="gloo")  # torch's half hour: rank 0 trains the unsharded model
            between_steps = dist.new_group(backend="gloo", timeout=timeout)
    except (RuntimeError, ValueError) as error:
        raise SimfrontierError(f"the {backend} ranks cannot be joined: {_first_line(error)}") from None
    return World(place, backend, device, store, control, between_steps, timeout_s)


def leave(world: World) -> None:
    """Destroy the process groups, if there are any."""
    import torch.distributed as dist

    if dist.is_initialized():
        with suppress(RuntimeError):
            dist.destroy_process_group()


def launcher_has_store() -> bool:
    """Return whether the launcher (torchrun or simfrontier's) hosts the key-value store of the ranks."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE", "False") == "True"


def _store(place: RankAddress, join_s: float) -> Any:
    """Return the key-value store of all ranks; the launcher hosts it if it has one, else rank 0."""
    import torch.distributed as dist
    from torch._C._distributed_c10d import TCPStore

    try:
        return TCPStore(
            place.address,
            place.port,
            world_size=None,
            is_master=place.rank == 0 and not launcher_has_store(),
            timeout=timedelta(seconds=join_s),
            wait_for_workers=False,
        )
    except (dist.DistError, RuntimeError, ValueError) as error:
        text = _first_line(error)
        if "EADDRINUSE" in text or "address already in use" in text:
            raise SimfrontierError(
                f"port {place.port} of {place.address} is taken; set MASTER_PORT to a free one"
            ) from None
        where = f"{place.address}:{place.port}"
        raise SimfrontierError(f"rank 0 does not answer at {where} within {join_s:g} s: {text}") from None


def _wait_for_all(store: Any, place: RankAddress, join_s: float) -> None:
    """Wait until every rank has reported its presence and the number of ranks it expects. Raises SimfrontierError."""
    keys = [f"size/{rank}" for rank in range(place.size)]
    try:
        store.set(keys[place.rank], str(place.size))
        with suppress(RuntimeError):  # a rank is missing at the timeout
            store.wait(keys, timedelta(seconds=join_s))
        sizes = {rank: int(store.get(key)) for rank, key in enumerate(keys) if store.check([key])}
        other = next((rank for rank, size in sizes.items() if size != place.size), None)
        missing = [str(rank) for rank in range(place.size) if rank not in sizes]
        if other is not None:
            text = f"rank {place.rank} was started as one of {place.size}, rank {other} as one of {sizes[other]}"
        elif missing:
            text = f"of {place.size} ranks {len(sizes)} came within {join_s:g} s; missing: {', '.join(missing[:8])}"
        else:
            return
        fault = _reported_once(store, place, text)
    except RuntimeError as error:
        raise SimfrontierError(f"rank 0 at {place.address}:{place.port} is gone: {_first_line(error)}") from None
    raise fault


def _reported_once(store: Any, place: RankAddress, text: str) -> SimfrontierError:
    """Return the error for a fault that all ranks detect at the same time; only the first rank to call this reports
    it."""
    is_first = int(store.add("reports", 1)) == 1
    if place.rank == 0:
        time.sleep(LINGER_S)  # the others still ask this rank's store
    return SimfrontierError(text) if is_first else ReportedElsewhereError(text)


def end_with_launcher() -> None:
    """Let this rank exit when the launcher that started it, torchrun or simfrontier's, has exited (Linux)."""
    if launcher_has_store():
        die_with_parent()


def end_with_starter() -> None:
    """Let this process exit together with the process that started it, if that process has set its id in the
    environment (Linux). Raises SimfrontierError if it has already exited."""
    starter = os.environ.get(STARTED_BY)
    if starter is not None:
        die_with_parent()
        if str(os.getppid()) != starter:
            raise SimfrontierError(f"process {starter}, which started this one, has ended")


@contextmanager
def _control_interface() -> Iterator[None]:
    """Let gloo groups created in this block use the network interface for messages outside the schedule, if one is
    configured; gloo reads the environment when it creates a group."""
    if CONTROL_DEVICE not in os.environ:
        yield
        return
    before = os.environ.get(GLOO_DEVICE)
    os.environ[GLOO_DEVICE] = os.environ[CONTROL_DEVICE]
    try:
        yield
    finally:
        if before is None:
            del os.environ[GLOO_DEVICE]
        else:
            os.environ[GLOO_DEVICE] = before


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
