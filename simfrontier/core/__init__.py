"""The model: programs of ops, machines, prices of ops, and the engine that runs a program on a machine."""
