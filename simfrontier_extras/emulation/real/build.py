"""Laying a fabric out: a network namespace per box, its settings, and the layout's lines given to `ip` and `tc`."""

from __future__ import annotations

import os
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

from simfrontier.errors import SimfrontierError
from simfrontier_extras.emulation.real import kernel
from simfrontier_extras.emulation.real.layout import NamespaceLayout, shaper

RUN = Path("/run")
NAMES = RUN / "netns"  # where `ip` looks for namespaces by name
WAKING = bytes(12) + b"\x88\xb5" + bytes(46)  # to and from nobody, of a protocol for local experiments (IEEE 802)
# Of each namespace. What TCP does by itself must not add to the counters or slow a message down.
SETTINGS = {
    "ipv6/conf/all/disable_ipv6": "1",
    "ipv6/conf/default/disable_ipv6": "1",
    "ipv4/ip_forward": "1",
    "ipv4/conf/all/rp_filter": "0",
    "ipv4/conf/default/rp_filter": "0",
    "ipv4/conf/all/send_redirects": "0",
    "ipv4/conf/default/send_redirects": "0",
    "ipv4/tcp_congestion_control": "reno",  # bbr would pace by its own idea of the rate
    "ipv4/tcp_slow_start_after_idle": "0",
    "ipv4/tcp_early_retrans": "0",  # no probes of what only waits in a queue
    "ipv4/tcp_autocorking": "0",
    "ipv4/tcp_no_metrics_save": "1",
    "ipv4/tcp_rmem": "4096 33554432 134217728",
    "ipv4/tcp_wmem": "4096 4194304 134217728",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceFabric:
    """The namespaces as they are: open files of each, and of each one's table of devices."""

    layout: NamespaceLayout
    namespaces: tuple[int, ...]
    tables: tuple[int, ...]


def build(layout: NamespaceLayout) -> NamespaceFabric:
    """Lay it out, in private network and mount namespaces (/run is covered). Raises SimfrontierError."""
    try:
        kernel.mount("tmpfs", RUN, "tmpfs")
        NAMES.mkdir()
        opened = [_namespace(name) for name in layout.names]
    except OSError as error:
        raise SimfrontierError(f"the fabric cannot be laid out: {error.strerror or error}") from error
    _batch("ip", layout.joins)
    for (namespace, _), ip, tc in zip(opened, layout.ip, layout.tc, strict=True):
        with kernel.in_net(namespace):
            _batch("tc", tc)
            _batch("ip", ip)
    return NamespaceFabric(
        layout=layout,
        namespaces=tuple(namespace for namespace, _ in opened),
        tables=tuple(table for _, table in opened),
    )


def reshape(fabric: NamespaceFabric, cable: int, factor: float) -> None:
    """Let a cable carry a part of its rate from now on. Raises SimfrontierError."""
    layout = fabric.layout
    with kernel.in_net(fabric.namespaces[layout.senders[cable]]):
        _batch("tc", (shaper("change", cable, layout.cables[cable], factor),))
        _wake(layout.devices[cable])


def _wake(device: str) -> None:
    """Send a frame that nobody takes: a shaper looks at its queue when something comes or when a timer says so, which
    is still set by the rate before. Raises SimfrontierError."""
    try:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as waking:
            waking.bind((device, 0))
            waking.send(WAKING)
    except OSError as error:
        raise SimfrontierError(f"the shaper of {device} cannot be woken: {error.strerror or error}") from error


def _namespace(name: str) -> tuple[int, int]:
    """Make one, and open it and its table of devices (which stays that namespace's, whoever reads it)."""
    home = os.open(kernel.OWN_NET, os.O_RDONLY | os.O_CLOEXEC)
    try:
        kernel.unshare_net()
        for setting, value in SETTINGS.items():
            path = Path("/proc/sys/net", setting)
            if path.exists() or not setting.startswith("ipv6"):
                path.write_text(value, encoding="ascii")
        (NAMES / name).touch()
        kernel.mount(kernel.OWN_NET, NAMES / name, flags=kernel.BIND)
        flags = os.O_RDONLY | os.O_CLOEXEC
        return os.open(kernel.OWN_NET, flags), os.open("/proc/thread-self/net/dev", flags)
    finally:
        kernel.enter_net(home)
        os.close(home)


def _batch(tool: str, lines: tuple[str, ...]) -> None:
    if not lines:
        return
    done = subprocess.run([tool, "-batch", "-"], input="\n".join(lines) + "\n", capture_output=True, text=True)
    if done.returncode != 0:
        text = " ".join(done.stderr.split())[:300]
        raise SimfrontierError(f"the fabric cannot be laid out: {tool}: {text or done.returncode}")
