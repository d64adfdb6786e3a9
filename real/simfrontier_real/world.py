"""The rank and size of this process, from torchrun or srun, and joining the other ranks."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from simfrontier.errors import InputError, SimfrontierError
from simfrontier_real.gloo_device import shared_device
from simfrontier_real.heartbeat import SLACK_S, Heartbeat
from simfrontier_real.options import device_kind
from simfrontier_real.parent import end_with_parent

T = TypeVar("T")
_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
_SRUN = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")
DEFAULT_PORT = 29500
LINGER_S = 3.0
GLOO_DEVICE = "GLOO_SOCKET_IFNAME"  # the network interface that gloo is to use
# Set in an emulated fabric: the device of what the schedule sends, and that of everything else (store, control group)
DATA_DEVICE, CONTROL_DEVICE = "SIMFRONTIER_DATA_IFNAME", "SIMFRONTIER_CONTROL_IFNAME"
LAUNCHER = "SIMFRONTIER_LAUNCHER"  # the number of an open file that ends with the launcher
STARTED_BY = "SIMFRONTIER_STARTED_BY"  # the id of a process with which this one is to end
CONTROL_S = 3600.0  # what rank 0 does for all (the unsharded model, files) may take long


class ReportedElsewhereError(SimfrontierError):
    """An error that another rank has reported already; this one only ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankAddress:
    """One process among `size` ranks; `address:port` is where rank 0 listens."""

    rank: int
    size: int
    local_rank: int
    address: str
    port: int


def place_of(environment: Mapping[str, str]) -> RankAddress:
    """The place that the launcher gives; alone where there is no launcher. Raises InputError for half a place."""
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
    """The ranks that have found each other: torch's default process group and the store that they share."""

    place: RankAddress
    backend: str
    device: str
    store: Any
    control: Any  # a gloo group of all ranks, for messages that are not of the schedule
    heartbeat: Heartbeat

    @property
    def rank(self) -> int:
        return self.place.rank

    @property
    def size(self) -> int:
        return self.place.size

    @property
    def goes_through_host(self) -> bool:
        """Whether messages are of buffers on a device and are carried in the host's memory."""
        return self.backend == "gloo" and self.device != "cpu"

    def begin_step(self, number: int) -> None:
        """Say in which step this rank is, counted from 0, for whoever asks when it is lost."""
        with suppress(RuntimeError):  # the store is gone with its rank; whoever waits for that one reports it
            self.store.set(step_key(self.rank), str(number + 1))

    def gather(self, value: Any) -> list[Any] | None:
        """Everybody's value on rank 0, None elsewhere."""
        import torch.distributed as dist

        out: list[Any] | None = [None] * self.size if self.rank == 0 else None
        dist.gather_object(value, out, dst=0, group=self.control)
        return out

    def all_gather(self, value: Any) -> list[Any]:
        """Everybody's value, everywhere."""
        import torch.distributed as dist

        out: list[Any] = [None] * self.size
        dist.all_gather_object(out, value, group=self.control)
        return out

    def run_on_all(self, work: Callable[[], T]) -> T:
        """What `work` gives on this rank, when it has been done on all. Raises the fault of the first rank that has one
        on every rank: none goes on and finds the others gone."""
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
        """Wait for all ranks."""
        import torch.distributed as dist

        dist.barrier(group=self.control)


def step_key(rank: int) -> str:
    """Of the store of all ranks: the number of the step that a rank is in, counted from 1."""
    return f"step/{rank}"


def join(
    place: RankAddress,
    backend: str,
    join_s: float,
    timeout_s: float,
    stuck_s: float | None = None,
    kind: str | None = None,
) -> World:
    """Find the other ranks within `join_s`. Raises SimfrontierError where the port is taken or somebody is missing.

    Collectives of gloo and nccl give up after `timeout_s`; a rank that gives no sign of life counts as stuck soon after
    `stuck_s` (by default as much), and the run ends. `kind`: of the device that tensors are on, cpu or cuda (None: as
    the backend needs it).
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
    _name_interface(place.address)
    store = _in_time(lambda: _store(place, join_s), place, join_s)
    _in_time(lambda: _wait_for_all(store, place, join_s), place, join_s + LINGER_S + 1.0)
    holder = None if _is_launchers() else 0
    own = store if place.size == 1 else _connected(place, join_s)
    alive = Heartbeat(place.rank, place.size, own, holder, (timeout_s if stuck_s is None else stuck_s) + SLACK_S)
    alive.start()
    try:
        with shared_device():
            dist.init_process_group(
                backend,
                store=PrefixStore("world", store),
                rank=place.rank,
                world_size=place.size,
                timeout=timedelta(seconds=timeout_s),
            )
        with _control_interface(), shared_device():
            control = dist.new_group(backend="gloo", timeout=timedelta(seconds=CONTROL_S))
    except (RuntimeError, ValueError) as error:
        raise SimfrontierError(f"the {backend} ranks cannot be joined: {_first_line(error)}") from None
    return World(place, backend, device, store, control, alive)


def leave(world: World) -> None:
    """Say that this rank has done everything, and take the process groups down, if there are any."""
    import torch.distributed as dist

    world.heartbeat.leave()
    if dist.is_initialized():
        with suppress(RuntimeError):
            dist.destroy_process_group()


def _store(place: RankAddress, join_s: float) -> Any:
    """The key-value store of all ranks: the launcher's where it has one, else rank 0 listens."""
    import torch.distributed as dist

    where = f"{place.address}:{place.port}"
    try:
        return _connected(place, join_s, place.rank == 0 and not _is_launchers())
    except (dist.DistError, RuntimeError, ValueError) as error:
        text = _first_line(error)
        if "EADDRINUSE" in text or "address already in use" in text:
            raise SimfrontierError(
                f"port {place.port} of {place.address} is taken; set MASTER_PORT to a free one"
            ) from None
        raise SimfrontierError(f"rank 0 does not answer at {where} within {join_s:g} s: {text}") from None


def _is_launchers() -> bool:
    """Whether the launcher has the store, ours or torchrun."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE", "False") == "True"


def _connected(place: RankAddress, join_s: float, listens: bool = False) -> Any:
    """A connection to the store; one that `listens` is the store."""
    from torch._C._distributed_c10d import TCPStore

    return TCPStore(
        place.address,
        place.port,
        world_size=None,
        is_master=listens,
        timeout=timedelta(seconds=join_s),
        wait_for_workers=False,
    )


def _in_time(work: Callable[[], Any], place: RankAddress, limit_s: float) -> Any:
    """Do what may hang inside torch (a stranger may listen on the port) on a thread of its own, and wait so long."""
    outcome: list[Any] = []
    raised: list[Exception] = []

    def run() -> None:
        try:
            outcome.append(work())
        except Exception as error:  # whatever it is, it is raised again in the thread that waits
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit_s + 1.0)
    if raised:
        raise raised[0]
    if not outcome:
        raise SimfrontierError(
            f"rank {place.rank}: nothing that answers like rank 0 listens at {place.address}:{place.port} "
            f"within {limit_s:g} s; is another program on that port?"
        )
    return outcome[0]


def _wait_for_all(store: Any, place: RankAddress, join_s: float) -> None:
    """Every rank reports that it is there and how many it expects; one reports for all where they do not agree."""
    deadline = time.monotonic() + join_s
    here: list[int] = []
    fault = ""
    try:
        store.set(f"size/{place.rank}", str(place.size))
        while not fault:
            here = [rank for rank in range(place.size) if store.check([f"size/{rank}"])]
            sizes = {rank: int(store.get(f"size/{rank}")) for rank in here}
            odd = next((rank for rank, size in sizes.items() if size != place.size), None)
            if odd is not None:
                fault = f"rank {place.rank} was started as one of {place.size}, rank {odd} as one of {sizes[odd]}"
            elif len(here) == place.size:
                return
            elif store.check(["fault"]):  # reported by a rank that has waited for longer
                fault = store.get("fault").decode()
            elif time.monotonic() > deadline:
                missing = [str(rank) for rank in range(place.size) if rank not in here]
                fault = f"of {place.size} ranks {len(here)} came within {join_s:g} s; missing: {', '.join(missing[:8])}"
            else:
                time.sleep(0.05)
        spoken = int(store.add("refusals", 1)) > 1
        if not spoken:
            store.set("fault", fault)
        if place.rank == 0:
            time.sleep(LINGER_S)  # the others still ask this rank's store who speaks
    except RuntimeError as error:
        raise SimfrontierError(f"rank 0 at {place.address}:{place.port} is gone: {_first_line(error)}") from None
    raise ReportedElsewhereError(fault) if spoken else SimfrontierError(fault)


def end_with_launcher() -> None:
    """Let this rank end when the launcher that started it is gone: ours, of which it has a pipe, or torchrun (Linux);
    others end with their connections."""
    pipe = os.environ.pop(LAUNCHER, None)
    if pipe is not None:
        end_with_parent(int(pipe))
    elif "TORCHELASTIC_RUN_ID" in os.environ:
        _end_with_parent()


def end_with_starter() -> None:
    """Let this process end with the one that started it, where that one has set its id. Raises SimfrontierError
    where it has ended already."""
    starter = os.environ.get(STARTED_BY)
    if starter is not None:
        _end_with_parent()
        if str(os.getppid()) != starter:
            raise SimfrontierError(f"process {starter}, which started this one, has ended")


def _end_with_parent() -> None:
    """Get a signal to end when the parent ends, however it does (Linux)."""
    if sys.platform == "linux":
        import ctypes
        import signal

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def _name_interface(address: str) -> None:
    """Tell gloo the network interface that leads to rank 0, unless the user does; it must not be the loopback one."""
    if DATA_DEVICE in os.environ:
        os.environ[GLOO_DEVICE] = os.environ[DATA_DEVICE]
    if GLOO_DEVICE in os.environ:
        return
    with suppress(OSError):
        import fcntl
        import struct

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            local = address in ("localhost", "127.0.0.1", socket.gethostname())
            probe.connect(("192.0.2.1" if local else address, 9))  # no packet is sent: this asks the routing table
            mine = probe.getsockname()[0]
            for _, name in socket.if_nameindex():
                with suppress(OSError):
                    request = struct.pack("256s", name[:15].encode())
                    at = socket.inet_ntoa(fcntl.ioctl(probe.fileno(), 0x8915, request)[20:24])  # SIOCGIFADDR
                    if at == mine and name != "lo":
                        os.environ[GLOO_DEVICE] = name
                        return


@contextmanager
def _control_interface() -> Iterator[None]:
    """Groups of gloo that are made meanwhile use the interface for messages that are not of the schedule, where one is
    named; gloo asks the environment when it makes a group."""
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
