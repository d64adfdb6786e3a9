"""Trial of an emulated fabric on this system, in namespaces that are thrown away."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Final

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
    """Return what is lacking, a line each; nothing where a fabric can be built."""
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
    """The command before a command that runs it in private namespaces."""
    return ["unshare", *(() if os.geteuid() == 0 else ROOTLESS), *PRIVATE]


def _fault(script: str) -> str:
    """The line of a script at which it fails in private namespaces, and why; empty where none does."""
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
