"""A machine's link graph on one Linux box: network namespaces joined by shaped veth pairs, and ranks that run in them.

launch.py   the process outside: starts the private namespaces, and with its end everything in them ends
inside.py   the first process inside: lays the fabric out, runs the ranks, answers for the counters
layout.py   what is laid out, as lines for `ip` and `tc`; no system call
build.py    the namespaces themselves
ranks.py    the rank processes, watched
counters.py bytes per cable, as the kernel counts them; server and client
probe.py    what a system lacks for all this
kernel.py   the system calls that Python does not have
"""
