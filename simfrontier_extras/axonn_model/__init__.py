"""AxoNN's analytical model of communication, Versions A and B, as its authors published it: what every grid of
tensor and data parallelism costs, and the grids in the order of that."""
