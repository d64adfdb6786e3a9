"""Variation between devices, between nodes' network rates, or between calls of kernels or collectives, around the
nominal value: a distribution, or a table of factors."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, get_args

from annotated_types import Ge, Gt, Le, Lt, MinLen

from simfrontier.base.errors import InputError, nearest, shown
from simfrontier.base.io import Derived, Line, Text, read_toml, typed
from simfrontier.base.limits import COUNT

if TYPE_CHECKING:
    from simfrontier.base.arrays import Floats

PUBLISHED: Final = Path(__file__).parent / "spreads.toml"
SMALLEST: Final = 1e-6  # least factor in a file: the nominal one is 1
LARGEST: Final = 10.0
FURTHEST: Final = 0.9  # largest distance from 1 without `most`: factors stay above 0

Share = Annotated[float, Ge(0), Le(1)]
Factor = Annotated[float, Ge(SMALLEST), Le(LARGEST)]
Differing = Literal["devices", "networks", "kernels", "collectives"]
Distribution = Literal["normal", "lognormal", "uniform", "quantiles"]
_NEEDED: Final = {"normal": "sd", "lognormal": "sd", "uniform": "width", "quantiles": "quantiles"}  # its own key


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Distribution of the factors on the nominal speeds of devices, on the rates at which nodes reach the network, or
    on the speeds of single calls of kernels or collectives. Factors may exceed 1.

    of            devices: speed of all kernels of each device; networks: rate of the links of each node that lead
                  to its NICs' network, in both directions; kernels: speed of every call of every kernel, and of host
                  work, on every device and in every step; collectives: speed of every call of every collective and of
                  every send, the same for all participating ranks
    name          a published distribution (`spreads.toml`), instead of the next five fields
    distribution  normal: 1 + sd z; lognormal: exp(sd z), of median 1; uniform: of total width `width`, around 1;
                  quantiles: interpolated between the pairs in `quantiles`
    most          largest distance from 1: the distribution is truncated at 1 - most and 1 + most
    quantiles     pairs of a share and the factor below which that share lies, both ascending; shares below the first
                  pair or above the last pair have the factor of that pair
    table         a CSV file next to the scenario with a column `factor`, instead of a distribution: a row for each
                  device or node in order; for calls, equally likely rows. `listed` holds the factors of its rows
    seed          seed of the random draws: device i has the same factor in jobs of any size, and in every plan
    source        source of the numbers, for the result page
    """

    of: Differing | None = None
    name: Line | None = None
    distribution: Distribution | None = None
    sd: Annotated[float, Gt(0), Le(1)] | None = None
    width: Annotated[float, Gt(0), Le(2 * FURTHEST)] | None = None
    most: Annotated[float, Gt(0), Lt(1)] | None = None
    quantiles: Annotated[tuple[tuple[Share, Factor], ...], MinLen(2)] | None = None
    table: Text | None = None
    seed: Annotated[int, Ge(0), Le(COUNT.most)] = 1
    source: Line | None = None
    listed: Annotated[tuple[float, ...], Derived(())] = ()

    @property
    def is_of_calls(self) -> bool:
        """True if every call of a kernel or collective varies; False if devices or nodes vary."""
        return self.of in ("kernels", "collectives")

    @property
    def thing(self) -> str:
        """Kind of things that vary (devices, networks or calls), for messages."""
        return self.of or "devices"

    def refuse_wrong(self) -> None:
        """Raise InputError for keys that exclude each other, or for missing keys."""
        one_of = [key for key in ("name", "distribution", "table") if getattr(self, key) is not None]
        if len(one_of) != 1 and not (self.listed and not one_of):
            got = " and ".join(one_of) or "none"
            raise InputError(f"got {got}; allowed: one of name, distribution and table")
        if self.name is not None:
            _published(self.name)
        elif self.of is None:
            raise InputError("missing; allowed: devices, networks, kernels or collectives", key=("of",))
        said, needed = (one_of or ["table"])[0], ""
        allowed: tuple[str, ...] = () if self.name is not None else ("of", "source")
        if self.distribution is not None:
            said, needed = f'distribution = "{self.distribution}"', _NEEDED[self.distribution]
            allowed += (needed, "most") if needed == "sd" else (needed,)
        for key in ("of", "sd", "width", "most", "quantiles", "source"):
            if getattr(self, key) is not None and key not in allowed:
                raise InputError(f"not allowed beside {said}; allowed: {', '.join((*allowed, 'seed'))}", key=(key,))
        if needed and getattr(self, needed) is None:
            raise InputError(f"missing, needed because {said}", key=(needed,))
        for before, after in pairwise(self.quantiles or ()):
            if after[0] <= before[0] or after[1] < before[1]:
                text = f"{list(after)} after {list(before)}, allowed: larger shares with factors as large or larger"
                raise InputError(f"got {text}", key=("quantiles",))

    def resolved(self) -> Spread:
        """Return this spread with its name replaced by the published distribution of that name. Raises InputError for a
        name that is not in the catalog."""
        return self if self.name is None else replace(_published(self.name), seed=self.seed)

    def factors(self, num: int) -> Floats:
        """Return the factors of the first `num` devices or nodes, shape [num]. Raises InputError if a table has too few
        rows."""
        import numpy as np  # reading a scenario needs no arrays

        known = self.resolved()
        if known.distribution is None:
            if len(known.listed) < num:
                rows, things = f"{len(known.listed):,} row{'s' if len(known.listed) > 1 else ''}", known.thing
                things = "nodes" if things == "networks" else things
                text = f"{known.table or 'the table'} has {rows}; this job has {num:,} {things}"
                raise InputError(text, key=("table",))
            return np.array(known.listed[:num])
        # One uniform number for each thing, in order: a longer job's begin with those of a shorter one.
        seeds = np.random.SeedSequence([known.seed, get_args(Differing).index(known.thing)])
        return known.not_exceeded(np.random.Generator(np.random.PCG64(seeds)).random(num))

    def not_exceeded(self, shares: Floats) -> Floats:
        """Return the quantiles of the factors at the given shares (in [0, 1)); rows of a table are equally likely."""
        import numpy as np

        known = self.resolved()
        match known.distribution:
            case None:
                rows = np.sort(np.array(known.listed))
                return rows[(shares * len(rows)).astype(np.int64)]
            case "uniform":
                even: Floats = 1.0 + (known.width or 0.0) * (shares - 0.5)
                return even
            case "quantiles":
                below, factors = zip(*(known.quantiles or ()), strict=True)
                between: Floats = np.interp(shares, below, factors)
                return between
            case "normal" | "lognormal" as law:
                return _between(law, known.sd or 0.0, known.most or FURTHEST, shares)


def _between(distribution: Literal["normal", "lognormal"], sd: float, most: float, shares: Floats) -> Floats:
    """Return the quantiles at the given shares of a distribution that is truncated at 1 - most and 1 + most."""
    import numpy as np
    from scipy.special import ndtr, ndtri

    ends = (-most, most) if distribution == "normal" else (math.log1p(-most), math.log1p(most))
    low, high = (float(ndtr(end / sd)) for end in ends)
    z = ndtri(low + (high - low) * shares)
    factors: Floats = 1.0 + sd * z if distribution == "normal" else np.exp(sd * z)
    kept: Floats = np.clip(factors, 1.0 - most, 1.0 + most)  # but for rounding
    return kept


def _published(name: str) -> Spread:
    known = _catalog()
    if name not in known:
        raise InputError(f"got {shown(name)}; {nearest(name, known)}", key=("name",))
    return known[name]


@cache
def _catalog() -> dict[str, Spread]:
    return typed(read_toml(PUBLISHED, "catalog of distributions"), dict[str, Spread], PUBLISHED.name)
