"""A machine's link graph on one Linux box: network namespaces joined by shaped veth pairs, and ranks that run in them.

layout.py      a wiring as lines for `ip` and `tc`; no system call
namespaces.py  what a system lacks for all this; builds the network namespaces of a layout
fabric.py      the cables as a rank sees them: bytes that they have carried, and their rates
ranks.py       the rank processes, and the first process inside, which builds the fabric and starts them
jobs.py        the jobs of a run, done on the ranks
"""
