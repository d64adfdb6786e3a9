"""The plans' tables of a scenario: which are chosen, the options that they mean, and which of them are searched for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from simfrontier.errors import InputError, nearest
from simfrontier.machine.faults import one_line
from simfrontier.machine.schema import Strict
from simfrontier.plan.compression import written
from simfrontier.plan.families import FAMILIES
from simfrontier.plan.grid import DATA_AXES
from simfrontier.plan.options import Options, codec_of
from simfrontier.plan.tensor import MegatronOptions, TensorOptions
from simfrontier.plan.zero import ZERO, BucketOptions, LatticeOptions
from simfrontier.workload import USUAL_WAY

GRID = ("x", "y", "z")  # what `by` searches for
AXES = ("node", "package", "gcd")
AXES_KEYS = ("weight", "accumulator", "optimizer", "copy_axes", "nesting", "axes", "shard", "secondary")
DATA_KEY = "data"
STEP_KEYS = ("micro_batch", "grad_accum", "checkpointing", "attention", "softmax")  # of a plan as a whole


class SearchTable(Strict):
    """What of a plan is searched for: X, Y and Z in the order of AxoNN's model of communication (`by`), the first `top`
    that fit the model, or every combination of `values`; of all these the fastest that fits into memory is taken."""

    by: Literal["axonn-a", "axonn-b"] | None = None
    top: Annotated[int, Field(ge=1, le=1000)] = 20
    values: dict[str, Annotated[list[int | str | bool], Field(min_length=1)]] = Field(default_factory=dict)


def searched(table: Mapping[str, Any], name: str) -> tuple[dict[str, Any], SearchTable | None]:
    """A plan's table without `search`, and that. Raises InputError."""
    rest = {key: value for key, value in table.items() if key != "search"}
    if "search" not in table:
        return rest, None
    try:
        search = SearchTable.model_validate(table["search"])
    except ValidationError as error:
        raise InputError(f"plans.{name}.search.{one_line(error, SearchTable)}") from None
    if search.by is None and not search.values:
        raise InputError(f'plans.{name}.search: got nothing to search; allowed: by = "axonn-a", or values')
    if search.by is not None and rest.get("family", name) != "axonn":
        raise InputError(f"plans.{name}.search.by: {search.by} is of the grids of family axonn; allowed: values")
    for key in ("family", *(GRID if search.by is not None else ())):
        if key in search.values:
            raise InputError(f"plans.{name}.search.values.{key}: cannot be searched for here; leave it out")
    for key in (*search.values, *(GRID if search.by is not None else ())):
        if key in rest:
            raise InputError(f"plans.{name}.{key}: got {rest[key]!r}, but it is searched for; leave one of the two out")
    return rest, search


def options_of(name: str, table: Mapping[str, Any]) -> Options:
    """The options of a plan's table. Raises InputError that names the key."""
    family = table.get("family", name)
    if not isinstance(family, str) or family not in FAMILIES:
        raise InputError(f"plans.{name}.family: {family!r} is unknown; {nearest(str(family), FAMILIES)}")
    form = FAMILIES[family][0]
    given: dict[str, Any] = {**table, "family": family}
    if issubclass(form, TensorOptions):
        _refuse_own_codec(given, f"plans.{name}")
        _refuse_two_codecs(given, f"plans.{name}")
        if DATA_KEY in given:
            given[DATA_KEY] = _data_options(given[DATA_KEY], f"plans.{name}.{DATA_KEY}")
    options = _validated(form, given, f"plans.{name}", AXES)
    _refuse_coded_all_reduce(options, f"plans.{name}")
    return options


def names_softmax(options: Options) -> bool:
    """Whether a plan takes another kernel of softmaxes than usual, or forms the loss over cut classes otherwise."""
    return options.softmax not in (None, "fused") or getattr(options, "cross_entropy", USUAL_WAY) != USUAL_WAY


def _refuse_own_codec(table: Mapping[str, Any], place: str) -> None:
    """Gradients cross the data axes as the plan on these says."""
    key = "gradient_codec"
    if key in table:
        raise InputError(f"{place}.{key}: is of the plan on the data axes: {place}.{DATA_KEY}.{key}")


def _refuse_two_codecs(table: Mapping[str, Any], place: str) -> None:
    """A policy of compression says how gradients and weights cross the data axes: the plan there does not say it."""
    data, said = table.get(DATA_KEY), "compression" if table.get("compression") not in (None, "none", {}) else ""
    said = said or ("message_dtype" if table.get("message_dtype") == "fp32" else "")
    for key in data if isinstance(data, dict) and said else ():
        if key.endswith("_codec"):
            raise InputError(
                f"{place}.{DATA_KEY}.{key}: and {place}.{said} both say how messages are coded; allowed: one of "
                "them, such as compression = { dp = ..., zero = ... }"
            )


def _data_options(value: Any, place: str) -> Options:
    """The plan on the data axes of a tensor-parallel one: a family's name, or its table."""
    table = {"family": value} if isinstance(value, str) else value
    if isinstance(table, dict) and "family" not in table:
        raise InputError(f"{place}.family: missing; allowed: {', '.join(sorted(ZERO))}")
    for key in STEP_KEYS:
        if isinstance(table, dict) and key in table:
            raise InputError(f"{place}.{key}: is of the plan as a whole: {place.removesuffix('.data')}.{key}")
    family = table.get("family") if isinstance(table, dict) else None
    if not isinstance(family, str) or family not in ZERO:
        shown = family if isinstance(table, dict) else value
        raise InputError(f"{place}: {shown!r} is no family of the data axes; {nearest(str(shown), ZERO)}")
    return _validated(ZERO[family][0], table, place, DATA_AXES)


def _validated(form: type[Options], table: Mapping[str, Any], place: str, axes: tuple[str, ...]) -> Options:
    try:
        options = form.model_validate(_prepared(dict(table), place, axes))
    except ValidationError as error:
        raise InputError(f"{place}.{one_line(error, form)}") from None
    if isinstance(options, LatticeOptions):
        _refuse_outside_nesting(options, place)
    return options


def _prepared(value: Any, place: str, axes: tuple[str, ...]) -> Any:
    """TOML's arrays as tuples, which frozen options hold, and texts of codecs as codecs; axes must be there, once."""
    key = place.rpartition(".")[2]
    if key == "compression":
        try:
            return written(value)
        except InputError as error:
            said = str(error)
            before = place.removesuffix(key) if said.startswith(key) else f"{place}: "
            raise InputError(f"{before}{said}") from None
    match value:
        case dict():
            return {name: _prepared(part, f"{place}.{name}", axes) for name, part in value.items()}
        case list():
            if key in AXES_KEYS:
                _refuse_axes(value, place, axes)
            return tuple(_prepared(part, f"{place}[{number}]", axes) for number, part in enumerate(value))
        case _ if key == "codec" or key.endswith("_codec"):
            if not isinstance(value, str):
                raise InputError(f'{place}: got {value!r}, allowed: a codec, such as "fp16" or "int8:6144"')
            try:
                return codec_of(value)
            except InputError as error:
                raise InputError(f"{place}: {error}") from None
    return value


def _refuse_axes(names: list[Any], place: str, axes: tuple[str, ...]) -> None:
    for name in names:
        if name not in axes:
            raise InputError(f"{place}: got {name!r}; {nearest(str(name), axes)}")
        if names.count(name) > 1:
            raise InputError(f"{place}: got {name!r} twice, allowed: every axis once")


def _refuse_coded_all_reduce(options: Options, place: str) -> None:
    """Codes cannot be added up on their way, unless every message is coded by itself."""
    on_data = options.data if isinstance(options, TensorOptions) else options
    if not isinstance(on_data, BucketOptions) or on_data.reduction != "all_reduce":
        return
    given, codec, more = "gradient_codec", on_data.gradient_codec, ""
    if isinstance(options, MegatronOptions) and options.compressed is not None:
        given, codec, more = "compression of dp", options.compressed.dp, ", or compress_per_hop = true"
        codec = None if options.compress_per_hop else codec
    if codec is not None and codec.is_opaque:
        where = place if on_data is options else f"{place}.{DATA_KEY}"
        raise InputError(
            f'{where}.reduction: got "all_reduce", which cannot carry {given} = "{codec}" (codes cannot be added up on '
            f'their way); allowed: "reduce_scatter"{more}'
        )


def _refuse_outside_nesting(options: LatticeOptions, place: str) -> None:
    if options.nesting is None:
        return
    for key in ("weight", "accumulator", "optimizer", "copy_axes"):
        outside = [axis for axis in getattr(options, key) or () if axis not in options.nesting]
        if outside:
            raise InputError(
                f"{place}.{key}: got {outside[0]!r}, allowed: axes of nesting: {', '.join(options.nesting)}"
            )


def name_plans(document: dict[str, Any], plans: tuple[str, ...]) -> None:
    """Plans that are chosen by their family's name alone are plans, too."""
    known = document.get("plans")
    if isinstance(known, dict):
        known |= {name: {} for name in plans if name in FAMILIES and name not in (*known, "lattice")}


def choose_plans(document: dict[str, Any], plans: tuple[str, ...], where: str) -> None:
    """Keep the named plans, in the order given; a family's own name means its defaults where the file has no such
    plan."""
    known = document.get("plans", {})
    if not isinstance(known, dict):
        return  # whatever it is, the form refuses it
    allowed = {*known, *FAMILIES} - ({"lattice"} - {*known})
    for name in plans:
        if name not in allowed:
            raise InputError(f"{where}: plans: {name!r} is unknown; {nearest(name, allowed)}")
        if plans.count(name) > 1:
            raise InputError(f"{where}: plans: got {name!r} twice, allowed: every plan once")
    document["plans"] = {name: known.get(name, {}) for name in plans}
    table = document.get("sensitivity")
    compared = table.get("plans") if isinstance(table, dict) else None
    if isinstance(compared, list) and any(name in list(known) and name not in plans for name in compared):
        del document["sensitivity"]
