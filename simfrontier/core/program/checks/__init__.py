"""The rules of the checker: of tensors and single ops, of values and accesses in whole programs, of shared calls."""
