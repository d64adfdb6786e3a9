"""Network namespaces of an emulated fabric: missing system requirements, one namespace per box of a layout, and the
cables as a rank sees them. Every rank may enter every namespace of its fabric, so that no server process is needed."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from simfrontier.base.errors import SimfrontierError, nearest
from simfrontier_extras.emulation.real.layout import NamespaceLayout, lay_out, shaper
from simfrontier_extras.emulation.wiring import Wiring, load_wiring

TOOLS: Final = {"unshare": "util-linux", "setpriv": "util-linux", "ip": "iproute2", "tc": "iproute2"}
PRIVATE: Final = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
ROOTLESS: Final = ("--user", "--map-root-user")
SBIN: Final = ("/usr/sbin", "/sbin")
LIMIT_S: Final = 20.0
PERMITTED: Final = (
    "run as root, or allow user namespaces: sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, "
    "kernel.apparmor_restrict_unprivileged_userns"
)
TRIAL: Final = """
mount -t tmpfs tmpfs /run
ip netns add a
ip netns add b
ip link add name x netns a type veth peer name y netns b
ip -n a link add name box type bridge
tc -n a qdisc add dev x root tbf rate 1mbit burst 9100 limit 1000000
ip -n a link set x gso_max_segs 1
ip -n a rule add from 10.0.0.1 to 10.0.0.2 lookup 1000
echo 1 > /proc/sys/net/ipv4/ip_forward
"""


def missing() -> list[str]:
    """Return the requirements that this system lacks, a line each; empty where a fabric can be built."""
    if sys.platform != "linux":
        return [f"Linux network namespaces (this system is {sys.platform})"]
    out = [
        f"the command {tool} (Debian: apt-get install {package})"
        for tool, package in TOOLS.items()
        if shutil.which(tool, path=search_path()) is None
    ]
    if out:
        return out
    if fault := _fault("true"):
        return [f"namespaces of one's own: {fault} ({PERMITTED})"]
    fault = _fault(TRIAL)
    return [fault] if fault else []


def search_path() -> str:
    """Return the search path for tools: an ordinary user's path may lack the folders of administrators' commands."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), *SBIN])


def private() -> list[str]:
    """Return the command prefix that runs another command in private namespaces."""
    return ["unshare", *(() if os.geteuid() == 0 else ROOTLESS), *PRIVATE]


def _fault(script: str) -> str:
    """Return the line of a script that fails in private namespaces, and why; empty if none fails."""
    environment = {**os.environ, "PATH": search_path()}
    command = [*private(), "sh", "-exc", script]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL, env=environment
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = done.stderr.split("\n+ ")[-1].removeprefix("+ ")
    return ": ".join(said.strip().splitlines()) if done.returncode else ""


NAMES: Final = Path("/run/netns")  # where `ip` keeps namespaces by name
OWN: Final = "/proc/thread-self/ns/net"
# Settings of each namespace. What TCP does by itself must not add to the counters or slow a message down.
SETTINGS: Final = {
    "ipv6/conf/all/disable_ipv6": "1",
    "ipv6/conf/default/disable_ipv6": "1",
    "ipv4/ip_forward": "1",
    "ipv4/conf/all/rp_filter": "0",
    "ipv4/conf/default/rp_filter": "0",
    "ipv4/conf/all/send_redirects": "0",
    "ipv4/conf/default/send_redirects": "0",
    "ipv4/tcp_congestion_control": "reno",  # bbr would pace by its own estimate of the rate
    "ipv4/tcp_slow_start_after_idle": "0",
    "ipv4/tcp_early_retrans": "0",  # no probes of what only waits in a queue
    "ipv4/tcp_autocorking": "0",
    "ipv4/tcp_no_metrics_save": "1",
    "ipv4/tcp_rmem": "4096 33554432 134217728",
    "ipv4/tcp_wmem": "4096 4194304 134217728",
}


def build(layout: NamespaceLayout) -> None:
    """Build the fabric, in private network and mount namespaces (/run is covered). Raises SimfrontierError."""
    run_tool(["mount", "-t", "tmpfs", "tmpfs", "/run"])
    batch(["ip"], [f"netns add {name}" for name in layout.names])
    for name in layout.names:
        with in_namespace(name):
            _apply_settings()
    batch(["ip"], layout.joins)
    for name, ip, tc in zip(layout.names, layout.ip, layout.tc, strict=True):
        batch(["tc", "-netns", name], tc)
        batch(["ip", "-netns", name], ip)


def _apply_settings() -> None:
    for setting, value in SETTINGS.items():
        path = Path("/proc/sys/net", setting)
        if path.exists() or not setting.startswith("ipv6"):
            path.write_text(value, encoding="ascii")


@contextmanager
def in_namespace(name: str) -> Iterator[None]:
    """Run the body, and the processes that it starts, in a network namespace; only this thread moves."""
    home = os.open(OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with (NAMES / name).open("rb") as there:
            _enter(there.fileno())
        yield
    finally:
        _enter(home)
        os.close(home)


def _enter(namespace: int) -> None:
    """setns(2), which Python has from 3.12 on."""
    if ctypes.CDLL(None, use_errno=True).setns(namespace, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")


def batch(tool: Sequence[str], lines: Sequence[str]) -> None:
    """Run `lines` as a batch of the tool `ip` or `tc`. Raises SimfrontierError."""
    if lines:
        run_tool([*tool, "-batch", "-"], "\n".join(lines) + "\n")


def run_tool(command: Sequence[str], text: str = "") -> None:
    """Run a command with `text` as standard input. Raises SimfrontierError."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        error = " ".join(done.stderr.split())[:300]
        raise SimfrontierError(f"the fabric cannot be built: {command[0]}: {error or done.returncode}")


WIRING: Final = "SIMFRONTIER_WIRING"  # set in a fabric: the file of its wiring
WAKING: Final = bytes(12) + b"\x88\xb5" + bytes(46)  # a frame to nobody, of a protocol for local experiments (IEEE 802)


def is_inside() -> bool:
    """True if this process is a rank in an emulated fabric."""
    return WIRING in os.environ


@cache
def wiring() -> Wiring:
    """Return the wiring of the fabric in which this rank runs."""
    return load_wiring(Path(os.environ[WIRING]))


@cache
def _layout() -> NamespaceLayout:
    return lay_out(wiring())


def carried_bytes() -> dict[str, int]:
    """Return the bytes that each cable has carried so far, by cable name, Ethernet headers included."""
    layout = _layout()
    sent = [_sent(name) for name in layout.names]
    return {cable.name: sent[layout.senders[k]][f"c{k}"] for k, cable in enumerate(layout.cables)}


def _sent(namespace: str) -> dict[str, int]:
    """Return the bytes sent by each device of a namespace: the ninth number after the device name in /proc/net/dev."""
    with in_namespace(namespace):
        table = Path("/proc/thread-self/net/dev").read_text(encoding="ascii")
    devices = (line.split(":") for line in table.splitlines()[2:])
    return {device.strip(): int(numbers.split()[8]) for device, numbers in devices}


@contextmanager
def slowed(factors: Mapping[str, float]) -> Iterator[None]:
    """Multiply the rates of cables by these factors during the block; packets already queued continue at the new
    rate."""
    set_rates(factors)
    yield
    set_rates(dict.fromkeys(factors, 1.0))


def set_rates(factors: Mapping[str, float]) -> None:
    """Set the rates of cables to these fractions of the wiring's rates from now on; a cable with factor 0 is cut.
    Raises SimfrontierError for an unknown cable."""
    if not factors:
        return
    layout = _layout()
    numbers = {cable.name: k for k, cable in enumerate(layout.cables)}
    for name, factor in factors.items():
        if name not in numbers:
            raise SimfrontierError(f"cable {name!r}: {nearest(name, numbers)}")
        number = numbers[name]
        namespace = layout.names[layout.senders[number]]
        batch(["tc", "-netns", namespace], [shaper("change", number, layout.cables[number], factor)])
        _wake(namespace, f"c{number}")


def _wake(namespace: str, device: str) -> None:
    """Send a frame that nobody receives: a shaper looks at its queue only when a packet arrives or its timer fires, and
    the timer is still set by the previous rate."""
    with in_namespace(namespace), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as waking:
        waking.bind((device, 0))
        waking.send(WAKING)
