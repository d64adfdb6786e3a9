"""Rules of the checker: for tensors and single ops, for values and accesses in whole programs, and for shared calls."""
