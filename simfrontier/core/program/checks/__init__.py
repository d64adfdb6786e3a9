"""Rules of the checker: for single tensors and ops, for values and accesses in whole programs, and for the collectives
and exchanges that several roles share."""
