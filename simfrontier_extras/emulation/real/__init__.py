"""A machine's link graph on one Linux box: network namespaces joined by shaped veth pairs, and ranks that run in them.

layout.py  a wiring as lines for `ip` and `tc`; no system call
fabric.py  what a system lacks for all this; the network namespaces of a layout, and its cables as a rank sees them
ranks.py   the rank processes, and the first process inside, which builds the fabric and starts them
jobs.py    the jobs of a run, done on the ranks
"""
