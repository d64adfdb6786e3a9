"""Plan tables of a scenario: the selected plans, their options, and the options that are searched for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any

from pydantic import Field

from simfrontier.base.errors import InputError, Key, dotted, meant, shown, unknown
from simfrontier.base.io import Names, Strict, checked
from simfrontier.core.plan import (
    DATA_AXES,
    FAMILIES,
    ZERO,
    BucketOptions,
    MegatronOptions,
    Options,
    TensorOptions,
    read_options,
)
from simfrontier.core.workload import USUAL_CROSS_ENTROPY
from simfrontier.inputs.scenario.added_keys import GridOrder, grid_orders, order_names

AXES = ("node", "package", "gcd")
DATA_KEY = "data"
OF_DATA = "gradient_codec"  # of a plan without data axes of its own; where it has such, of the plan on them
ALSO_CALLED = {  # families in the words of other programs
    **dict.fromkeys(("fsdp", "fsdp1", "fsdp2", "full_shard", "full-shard", "zero"), "zero3"),
    **dict.fromkeys(("hybrid_shard", "hybrid-shard", "mics"), "hsdp"),
    **dict.fromkeys(("shard_grad_op", "shard-grad-op"), "zero2"),
    **dict.fromkeys(("no_shard", "no-shard", "zero0"), "ddp"),
    **{"zero++": "zeropp", "3d": "megatron"},
}
IDLE_AT_ONE = {"order": "pipeline", "dispatch": "expert", "context_by": "context"}
STEP_KEYS = (  # of a plan as a whole
    *("micro_batch", "grad_accum", "checkpointing", "attention", "softmax", "offload_activations"),
)


class SearchTable(Strict):
    """Search for the options of a plan. The candidates are the grids in the `usual` order or that of a model which an
    extra adds (`by`), of which the first `top` that fit the model are tried, or every combination of `values`; the
    fastest candidate that fits into memory is taken, in the usual order the first."""

    by: Annotated[str | None, Names(order_names)] = None
    top: Annotated[int, Field(ge=1, le=1000)] = 20
    values: dict[str, Annotated[list[int | str | bool], Field(min_length=1)]] = Field(default_factory=dict)

    @property
    def order(self) -> GridOrder | None:
        """The order in which grids are tried; None if the search names no order."""
        return None if self.by is None else grid_orders()[self.by]

    @property
    def grid_keys(self) -> tuple[str, ...]:
        """The options that the grid order sets."""
        return () if self.order is None else self.order.keys


def searched(table: Mapping[str, Any], name: str) -> tuple[dict[str, Any], SearchTable | None]:
    """Return a plan's table without its `search` table, and the search. Raises InputError."""
    rest = {key: value for key, value in table.items() if key != "search"}
    if "search" not in table:
        return rest, None
    plan: Key = ("plans", name)
    place: Key = (*plan, "search")
    search: SearchTable = checked(table["search"], SearchTable, place)
    if search.by is None and not search.values:
        by = "".join(f"by = {shown(order)}, or " for order in order_names()[:1])
        raise InputError(f"got nothing to search; allowed: {by}values", key=place)
    if search.order is not None and rest.get("family", name) != search.order.family:
        text = f"{search.by} is of the grids of family {search.order.family}; allowed: values"
        raise InputError(text, key=(*place, "by"))
    for key in ("family", *search.grid_keys):
        if key in search.values:
            raise InputError("cannot be searched for here; leave it out", key=(*place, "values", key))
    for key in (*search.values, *search.grid_keys):
        if key in rest:
            text = f"got {shown(rest[key])}, but it is searched for; leave one of the two out"
            raise InputError(text, key=(*plan, key))
    return rest, search


def plan_keys(family: str) -> tuple[str, ...]:
    """Return the keys of a plan's table for a family: the family's options, except those of the plan on the data
    axes."""
    form = FAMILIES[family][0]
    return tuple(key for key in form.model_fields if key != OF_DATA or not issubclass(form, TensorOptions))


def options_of(name: str, table: Mapping[str, Any]) -> Options:
    """Return the options that a plan's table sets. Raises InputError that names the key."""
    family = table.get("family", name)
    plan: Key = ("plans", name)
    if not isinstance(family, str) or family not in FAMILIES:
        raise InputError(unknown_family(family, FAMILIES), key=(*plan, "family"))
    form = FAMILIES[family][0]
    given: dict[str, Any] = {**table, "family": family}
    if issubclass(form, TensorOptions):
        _refuse_own_codec(given, plan)
        _refuse_two_codecs(given, plan)
        if DATA_KEY in given:
            given[DATA_KEY] = _data_options(given[DATA_KEY], plan)
    options = read_options(form, given, plan, AXES)
    _refuse_coded_all_reduce(options, plan)
    return options


def unknown_family(name: object, allowed: Collection[str]) -> str:
    """Return the error message for a name that is neither a plan nor a family; for a name from another program, it
    suggests the equivalent family."""
    called = str(name).lower()
    same = ALSO_CALLED.get(called)
    if same not in allowed:
        return unknown(name, allowed)
    in_node = ', or "hsdp" (HYBRID_SHARD)' if called.startswith("fsdp") and "hsdp" in allowed else ""
    return f'got {shown(name)}; did you mean "{same}"{in_node}?'


def names_softmax(options: Options) -> bool:
    """Return whether a plan sets a softmax kernel other than the default, or another method of the loss over divided
    classes."""
    return (
        options.softmax not in (None, "fused")
        or getattr(options, "cross_entropy", USUAL_CROSS_ENTROPY) != USUAL_CROSS_ENTROPY
    )


def refuse_idle(name: str, options: Options, search: SearchTable | None) -> None:
    """Raise InputError for a key that a plan sets although its degree, of one rank, leaves nothing to decide."""
    found = () if search is None else (*search.values, *search.grid_keys)
    for key, degree in IDLE_AT_ONE.items():
        value = getattr(options, key, None)
        if key not in options.model_fields_set or value == type(options).model_fields[key].default or degree in found:
            continue
        if getattr(options, degree) == 1:
            text = f"got {shown(value)}, which changes nothing with {degree} = 1; allowed: {degree} of 2 or more"
            raise InputError(text, key=("plans", name, key))


def _refuse_own_codec(table: Mapping[str, Any], plan: Key) -> None:
    """Raise InputError for a codec of gradients that is set outside the plan on the data axes; only that plan can set
    it."""
    if OF_DATA in table:
        text = f"is of the plan on the data axes: {dotted((*plan, DATA_KEY, OF_DATA))}"
        raise InputError(text, key=(*plan, OF_DATA))


def _refuse_two_codecs(table: Mapping[str, Any], plan: Key) -> None:
    """Raise InputError if both a compression policy and the plan on the data axes set the codecs of gradients and
    weights."""
    data, text = table.get(DATA_KEY), "compression" if table.get("compression") not in (None, "none", {}) else ""
    text = text or ("message_dtype" if table.get("message_dtype") == "fp32" else "")
    for key in data if isinstance(data, dict) and text else ():
        if key.endswith("_codec"):
            raise InputError(
                f"and {dotted((*plan, text))} both say how messages are coded; allowed: one of them, such as "
                "compression = { dp = ..., zero = ... }",
                key=(*plan, DATA_KEY, key),
            )


def _data_options(value: Any, plan: Key) -> Options:
    """Return the options of the plan on the data axes of a tensor-parallel plan, from a family's name or a table."""
    table = {"family": value} if isinstance(value, str) else value
    place: Key = (*plan, DATA_KEY)
    if isinstance(table, dict) and "family" not in table:
        raise InputError(f"missing; allowed: {', '.join(sorted(ZERO))}", key=(*place, "family"))
    for key in STEP_KEYS:
        if isinstance(table, dict) and key in table:
            raise InputError(f"is of the plan as a whole: {dotted((*plan, key))}", key=(*place, key))
    family = table.get("family") if isinstance(table, dict) else None
    if not isinstance(family, str) or family not in ZERO:
        got = family if isinstance(table, dict) else value
        raise InputError(f"got {shown(got)}, which is no family of the data axes; {meant(str(got), ZERO)}", key=place)
    return read_options(ZERO[family][0], table, place, DATA_AXES)


def _refuse_coded_all_reduce(options: Options, plan: Key) -> None:
    """Raise InputError for an all-reduce of coded messages, which cannot be added up, unless every point-to-point
    message is coded separately."""
    on_data = options.on_data
    if not isinstance(on_data, BucketOptions) or on_data.reduction != "all_reduce":
        return
    given, codec, more = "gradient_codec", on_data.gradient_codec, ""
    if isinstance(options, MegatronOptions) and options.compressed is not None:
        given, codec, more = "compression of dp", options.compressed.dp, ", or compress_per_hop = true"
        codec = None if options.compress_per_hop else codec
    if codec is not None and codec.is_opaque:
        place = plan if on_data is options else (*plan, DATA_KEY)
        raise InputError(
            f'got "all_reduce", which cannot carry {given} = "{codec}" (codes cannot be added up on '
            f'their way); allowed: "reduce_scatter"{more}',
            key=(*place, "reduction"),
        )
