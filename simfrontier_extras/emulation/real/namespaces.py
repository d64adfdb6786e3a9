"""Network namespaces of a fabric: one for each box, with its settings and the lines of its layout for `ip` and `tc`."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from simfrontier.base.errors import SimfrontierError
from simfrontier_extras.emulation.real.layout import NamespaceLayout

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
    """Run lines of `ip` or `tc`. Raises SimfrontierError."""
    if lines:
        run_tool([*tool, "-batch", "-"], "\n".join(lines) + "\n")


def run_tool(command: Sequence[str], text: str = "") -> None:
    """Run a command with this standard input. Raises SimfrontierError."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        error = " ".join(done.stderr.split())[:300]
        raise SimfrontierError(f"the fabric cannot be built: {command[0]}: {error or done.returncode}")
