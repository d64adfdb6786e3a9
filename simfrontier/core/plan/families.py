"""The registry of plans: each family's options, its mesh and its plan."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar, get_type_hints

from pydantic import create_model

from simfrontier.base.errors import InputError
from simfrontier.core.plan.options import PLAIN, CodecText, Options, codec_of
from simfrontier.core.plan.options_table import read_options
from simfrontier.core.plan.plan import Plan
from simfrontier.core.plan.tensor import TENSOR, TensorOptions
from simfrontier.core.plan.zero import ZERO, LatticeOptions
from simfrontier.core.program import Mesh

FAMILIES: dict[str, tuple[type[Options], Callable[..., Plan]]] = {**ZERO, **TENSOR}


def make_plan(name: str, options: Options, mesh: Mesh) -> Plan:
    """The plan that a family's options mean on a mesh. Raises InputError."""
    maker = FAMILIES[options.family][1]
    return maker(name, options, mesh) if isinstance(options, TensorOptions) else maker(name, options, mesh, mesh.names)


Maker = Callable[..., Plan | Mapping[str, Any]]
Made = TypeVar("Made", bound=Maker)
_SHIPPED: Final = frozenset(FAMILIES)


def plan_family(maker: Made) -> Made:
    """Register a function as a family of plans, with the name of the function (- for _), in this process only.

    The function takes the mesh (axes node, package, gcd) and keyword options, each with a type and a default, which
    become keys of the plan (names that end in `codec` are codecs, as texts).
    It returns the keys of a plan of family `lattice` (over which axes weight, accumulator and optimizer are
    partitioned, and by which hops each moves), or a whole `Plan`. Defining the function again replaces the family.
    Raises InputError for the name of a shipped family, or for a parameter without a type or a default.

    >>> @plan_family
    ... def striped(mesh, *, codec: str = "plain"):
    ...     return {"weight": ["gcd"], "accumulator": ["gcd"], "optimizer": ["gcd"], "gather_codec": codec}
    """
    name = maker.__name__.replace("_", "-")
    if name in _SHIPPED:
        raise InputError(f"plan family {name!r}: simfrontier has one of this name; allowed: another name")
    form = create_model(f"{maker.__name__}_options", __base__=Options, __doc__=maker.__doc__, **_fields(name, maker))
    ZERO[name] = FAMILIES[name] = form, _plan_of(maker, form)
    return maker


def own_families() -> frozenset[str]:
    """The names of the families that `plan_family` has made."""
    return frozenset(FAMILIES) - _SHIPPED


def _fields(name: str, maker: Maker) -> dict[str, Any]:
    """The keyword parameters of a function as fields of a pydantic model."""
    types, fields = get_type_hints(maker), {}
    for parameter in list(inspect.signature(maker).parameters.values())[1:]:
        if parameter.name in Options.model_fields:
            text = f"plan family {name!r}: {parameter.name} is a key of every plan; allowed: another name"
            raise InputError(text)
        if parameter.name not in types or parameter.default is parameter.empty:
            text = f"plan family {name!r}: {parameter.name}: allowed: parameters with a type and a default"
            raise InputError(text)
        if parameter.name.endswith("codec"):
            fields[parameter.name] = CodecText, codec_of(parameter.default)
        else:
            fields[parameter.name] = types[parameter.name], parameter.default
    return fields


def _plan_of(maker: Maker, form: type[Options]) -> Callable[[str, Options, Mesh, tuple[str, ...]], Plan]:
    own = form.model_fields.keys() - Options.model_fields.keys()

    def plan(name: str, options: Options, mesh: Mesh, data: tuple[str, ...]) -> Plan:
        given = maker(mesh, **{key: _shown(key, getattr(options, key)) for key in own})
        if isinstance(given, Plan):
            return replace(given, name=name, family=options.family)
        if not isinstance(given, Mapping):
            text = f"got a {type(given).__name__} from {options.family}(); allowed: keys of family lattice, or a Plan"
            raise InputError(text)
        lattice = read_options(LatticeOptions, {**given, "family": "lattice"}, (), mesh.names)
        if options.gradient_codec is not None:
            lattice = lattice.model_copy(update={"gradient_codec": options.gradient_codec})
        return replace(ZERO["lattice"][1](name, lattice, mesh, data), family=options.family)

    return plan


def _shown(key: str, value: Any) -> Any:
    """An option as the function takes it."""
    return str(value or PLAIN) if key.endswith("codec") else value
