"""Choice of experts by positions, and to how many devices or nodes the rows of a position go."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Routing:
    """Choice of experts, all equally likely: a position chooses `limit` of `groups` equal groups of experts, and
    `per_token` of the experts in them. A row (a copy of the position's features) goes to each of these."""

    experts: int
    per_token: int
    groups: int = 1
    limit: int = 1

    def distinct(self, parts: int) -> float:
        """Return the mean number of distinct parts to which the rows of a position go, if each of `parts` parts (nodes
        or devices) has equally many consecutive experts, of whole groups or of a piece of one: parts (1 - P), with P
        the probability that no row goes to a given part.

        With k choices of the n experts in the chosen groups, of which the part has a: P = C(n - a, k) / C(n, k), and a
        follows from how many of the part's groups are among those chosen.
        """
        of_group = self.experts / self.groups
        whole = self.groups // parts  # groups that lie in the part as a whole; 0: the part has a piece of one
        own, each = (whole, of_group) if whole else (1, self.experts / parts)
        total = math.comb(self.groups, self.limit)
        missed = 0.0
        for chosen in range(min(own, self.limit) + 1):
            ways = math.comb(own, chosen) * math.comb(self.groups - own, self.limit - chosen)
            missed += ways / total * self._missed(chosen * each, self.limit * of_group)
        return parts * (1.0 - missed)

    def _missed(self, part: float, all_: float) -> float:
        """Return the probability that none of the choices among `all_` experts falls to `part` of them."""
        return math.prod(max(0.0, all_ - part - made) / (all_ - made) for made in range(self.per_token))
