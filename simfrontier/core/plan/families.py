"""Families of plans: their options, the functions that make their plans, user-defined families, and conversion of
options from and to tables."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar, get_type_hints

from pydantic import BaseModel, create_model

from simfrontier.base.errors import InputError, Key, located, shown, unknown, wrong
from simfrontier.base.io import checked
from simfrontier.core.codecs import Codec
from simfrontier.core.plan.compression import written
from simfrontier.core.plan.options import PLAIN, CodecText, Options, codec_of
from simfrontier.core.plan.plan import Plan
from simfrontier.core.plan.tensor import TENSOR, TensorOptions
from simfrontier.core.plan.zero import ZERO, LatticeOptions
from simfrontier.core.program import Mesh

FAMILIES: dict[str, tuple[type[Options], Callable[..., Plan]]] = {**ZERO, **TENSOR}


def make_plan(name: str, options: Options, mesh: Mesh) -> Plan:
    """Return the plan that a family makes from these options on a mesh. Raises InputError."""
    maker, axes = FAMILIES[options.family][1], () if isinstance(options, TensorOptions) else (mesh.names,)
    plan: Plan = maker(name, options, mesh, *axes)
    return replace(plan, offloaded_layers=options.offload_activations) if options.offload_activations else plan


Maker = Callable[..., Plan | Mapping[str, Any]]
Made = TypeVar("Made", bound=Maker)
_SHIPPED: Final = frozenset(FAMILIES)


def plan_family(maker: Made) -> Made:
    """Register a function as a family of plans, with the name of the function (- for _), in this process only. Defining
    the function again replaces the family.

    Args:
        maker: function of the mesh (axes node, package, gcd) and of keyword options, each with a type and a default,
            which become keys of the plan (names that end in `codec` are codecs, as texts). It returns the keys of a
            plan of family `lattice` (over which axes weight, accumulator and optimizer are partitioned, and by which
            hops each moves), or a whole `Plan`.

    Returns:
        The function itself.

    Raises:
        InputError: for the name of a shipped family, or for a parameter without a type or a default.

    Example:
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
    """Return the names of the families that users have registered with `plan_family`."""
    return frozenset(FAMILIES) - _SHIPPED


def _fields(name: str, maker: Maker) -> dict[str, Any]:
    """Return the keyword parameters of a function as fields of a pydantic model."""
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
        given = maker(mesh, **{key: _as_given(key, getattr(options, key)) for key in own})
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


def _as_given(key: str, value: Any) -> Any:
    """Return the value of an option in the type that the family's function expects."""
    return str(value or PLAIN) if key.endswith("codec") else value


# ── tables of options ──

AXES_KEYS = ("weight", "accumulator", "optimizer", "copy_axes", "nesting", "axes", "shard", "secondary")


def read_options(form: type[Options], table: Mapping[str, Any], place: Key, axes: tuple[str, ...]) -> Options:
    """Parse the table at `place` of a file as the options of a family, `form`; `axes` are the axes of the mesh. Raises
    InputError."""
    options: Options = checked(_prepared(dict(table), place, axes), form, place)
    if isinstance(options, LatticeOptions):
        _refuse_outside_nesting(options, place)
    return options


def table_of(options: BaseModel) -> dict[str, Any]:
    """Return the table from which `read_options` would parse these options: only the keys that were set explicitly."""
    given = options.model_fields_set
    return {key: _as_table(getattr(options, key)) for key in type(options).model_fields if key in given}


def _as_table(value: Any) -> Any:
    match value:
        case BaseModel():
            return table_of(value)
        case tuple() | list():
            return [_as_table(part) for part in value]
        case Codec():
            return str(value)
    return value


def _prepared(value: Any, place: Key, axes: tuple[str, ...]) -> Any:
    """Return a TOML value prepared for frozen options: arrays as tuples, codec names as codecs. Axes must exist in the
    mesh and must not repeat."""
    key = str(place[-1]) if place else ""
    if key == "compression":
        with located(key=place):
            return written(value)
    match value:
        case dict():
            return {name: _prepared(part, (*place, name), axes) for name, part in value.items()}
        case list() | tuple():
            if key in AXES_KEYS:
                _refuse_axes(value, place, axes)
            return tuple(_prepared(part, (*place, number), axes) for number, part in enumerate(value))
        case _ if key.endswith("codec"):
            if isinstance(value, Codec):
                return value
            if not isinstance(value, str):
                raise InputError(wrong(value, 'a codec, such as "fp16" or "int8:6144"'), key=place)
            with located(key=place):
                return codec_of(value)
    return value


def _refuse_axes(names: list[Any] | tuple[Any, ...], place: Key, axes: tuple[str, ...]) -> None:
    for name in names:
        if name not in axes:
            raise InputError(unknown(name, axes), key=place)
        if names.count(name) > 1:
            raise InputError(f"got {shown(name)} twice, allowed: every axis once", key=place)


def _refuse_outside_nesting(options: LatticeOptions, place: Key) -> None:
    if options.nesting is None:
        return
    for key in ("weight", "accumulator", "optimizer", "copy_axes"):
        outside = [axis for axis in getattr(options, key) or () if axis not in options.nesting]
        if outside:
            text = f"axes of nesting: {', '.join(options.nesting)}"
            raise InputError(wrong(outside[0], text), key=(*place, key))
