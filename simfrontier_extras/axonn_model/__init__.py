"""AxoNN's analytical model of communication, Versions A and B, as its authors published it: the cost of every grid of
tensor and data parallelism, and the grids in the order of that cost."""
