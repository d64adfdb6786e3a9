"""A machine's link graph on one Linux box: network namespaces joined by shaped veth pairs, and ranks that run in them.

launch.py      the process outside: starts the private namespaces and ends them
inside.py      the first process inside: builds the fabric and runs the ranks
layout.py      a wiring as lines for `ip` and `tc`; no system call
namespaces.py  builds the network namespaces of a layout
fabric.py      the cables as a rank sees them: bytes that they have carried, and their rates
ranks.py       the rank processes
probe.py       what a system lacks for all this
"""
