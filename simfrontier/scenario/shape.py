"""The model that a scenario's table means: a named shape, or one of the user's own, of a GPT or of an MLP."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from simfrontier.errors import InputError
from simfrontier.scenario.form import ModelTable
from simfrontier.workload import MODELS, GptShape, MlpShape, MugsShape, Shape, find_model, sizes_of

TRAITS = ("residual", "tied")


def shape_of(table: ModelTable) -> Shape:
    """A named shape, with what the table sets otherwise; or one of the user's own, which then needs every size. Raises
    InputError."""
    sizes = {key: getattr(table, key) for key in dict.fromkeys((*sizes_of(GptShape), *sizes_of(MlpShape)))}
    given = {key: value for key, value in sizes.items() if value is not None}
    if isinstance(MODELS.get(table.name), MugsShape):
        return _mugs(table, given)
    form = _form_of(table.name, given)
    keys = sizes_of(form)
    for key in given:
        if key not in keys:
            kind = "an MLP" if form is MlpShape else "a GPT"
            raise InputError(f"model.{key}: {table.name} is {kind}, whose sizes are {', '.join(keys)}")
    traits = {key: getattr(table, key) for key in TRAITS if getattr(table, key) is not None}
    for key in traits if form is MlpShape else ():
        raise InputError(f"model.{key}: {table.name} is an MLP, which has none; allowed: a GPT")
    lacking = [key for key in keys if key not in given]
    if not lacking:
        return form(name=table.name, source="scenario", **given, **traits)
    if table.name not in MODELS and len(given) > 1:
        raise InputError(f"model: a shape of your own needs all of {', '.join(keys)}; missing: {', '.join(lacking)}")
    shape = find_model(table.name)
    return replace(shape, **given, **traits) if given or traits else shape


def _mugs(table: ModelTable, given: Mapping[str, int]) -> Shape:
    """Runs of Mugs are named ones, of which only the number of layers may be set."""
    for key in (*given, *(key for key in TRAITS if getattr(table, key) is not None)):
        if key != "num_layers":
            raise InputError(f"model.{key}: {table.name} is a Mugs run, of which only num_layers may be set")
    shape = find_model(table.name)
    return replace(shape, num_layers=given["num_layers"]) if given else shape


def _form_of(name: str, given: Collection[str]) -> type[GptShape] | type[MlpShape]:
    """What the sizes are of: the kind of the named model, else an MLP where a size is given that only an MLP has."""
    known = MODELS.get(name)
    if isinstance(known, GptShape | MlpShape):
        return type(known)
    return MlpShape if set(given) - set(sizes_of(GptShape)) else GptShape
