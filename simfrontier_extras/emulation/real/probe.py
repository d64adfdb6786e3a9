"""What this system lacks for an emulated fabric: really tried, in namespaces that are thrown away."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

TOOLS = {"unshare": "util-linux", "ip": "iproute2", "tc": "iproute2"}
PRIVATE = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
ROOTLESS = ("--user", "--map-root-user")
SBIN = ("/usr/sbin", "/sbin")
LIMIT_S = 20.0
# Each with what it shows; run in order, in one shell, inside.
TRIALS = (
    ("mount -t tmpfs tmpfs /run && mkdir /run/netns", "a tmpfs cannot be mounted in a private namespace"),
    ("ip netns add a && ip netns add b", "network namespaces cannot be made inside a private one"),
    ("ip link add name x netns a type veth peer name y netns b", "the kernel has no veth devices (module veth)"),
    ("ip -n a link add name box type bridge", "the kernel has no bridge devices (module bridge)"),
    ("tc -n a qdisc add dev x root tbf rate 1mbit burst 9100 limit 1000000", "the kernel has no tbf (module sch_tbf)"),
    ("ip -n a link set x gso_max_segs 1", "iproute2 or the kernel is too old for gso_max_segs (Linux 5.17 is enough)"),
    ("ip -n a rule add from 10.0.0.1 to 10.0.0.2 lookup 1000", "the kernel has no policy routing (ip rule)"),
    ("echo 1 > /proc/sys/net/ipv4/ip_forward", "settings below /proc/sys/net cannot be written in a private namespace"),
)


def missing() -> list[str]:
    """What is lacking, a line each; nothing where a fabric can be laid out."""
    if sys.platform != "linux":
        return [f"Linux network namespaces (this system is {sys.platform})"]
    out = [
        f"the command {tool} (Debian: apt-get install {package})"
        for tool, package in TOOLS.items()
        if shutil.which(tool, path=search_path()) is None
    ]
    if out:
        return out
    prefix = private()
    if prefix is None:
        return [f"namespaces of one's own: {_refusal()}"]
    script = "\n".join(
        f"{{ {trial}; }} 2>/dev/null || {{ echo {number}; exit 0; }}" for number, (trial, _) in enumerate(TRIALS)
    )
    done = _run([*prefix, "sh", "-c", script])
    if done is None:
        return ["namespaces of one's own: the trial did not end"]
    failed = done.stdout.strip()
    return [TRIALS[int(failed)][1]] if failed.isdecimal() else []


def search_path() -> str:
    """Where tools are looked for: who is not root may lack the folders of administrators' commands."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), *SBIN])


def private() -> list[str] | None:
    """The command before a command that runs it in private namespaces, with or without the rights of root; None where
    neither works."""
    for more in ((), ROOTLESS) if os.geteuid() == 0 else (ROOTLESS,):
        prefix = ["unshare", *more, *PRIVATE]
        done = _run([*prefix, "true"])
        if done is not None and done.returncode == 0:
            return prefix
    return None


def _refusal() -> str:
    done = _run(["unshare", *(() if os.geteuid() == 0 else ROOTLESS), *PRIVATE, "true"])
    text = "" if done is None else " ".join(done.stderr.split())[:200]
    return (
        f"{text or 'unshare did not end'} (run as root, or allow user namespaces: sysctl user.max_user_namespaces, "
        "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)"
    )


def _run(command: list[str]) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PATH": search_path()},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
