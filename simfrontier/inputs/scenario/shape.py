"""The model that a scenario's table means: a named shape, or one of the user's own, of a GPT or of an MLP."""

from __future__ import annotations

from collections.abc import Collection

from simfrontier.base.errors import InputError
from simfrontier.core.workload import GptShape, MlpShape, Shape, find_model, known_model, sizes_of
from simfrontier.inputs.scenario.form import ModelTable

TRAITS = (
    *("residual", "tied", "ffn_hidden", "gated", "kv_heads", "norm", "biases", "positions", "embedding_norm", "causal"),
    *("vocabulary_multiple", "dropout"),
)  # of a GPT


def shape_of(table: ModelTable) -> Shape:
    """A named shape, with what the table sets otherwise; or one of the user's own, which then needs every size. Raises
    InputError."""
    sizes = {key: getattr(table, key) for key in dict.fromkeys((*sizes_of(GptShape), *sizes_of(MlpShape)))}
    given = {key: value for key, value in sizes.items() if value is not None}
    traits = {key: getattr(table, key) for key in TRAITS if getattr(table, key) is not None}
    known = known_model(table.name)
    if known is not None and not isinstance(known, GptShape | MlpShape):
        return known.with_settings({**given, **traits})
    form = _form_of(known, given)
    keys = sizes_of(form)
    for key in given:
        if key not in keys:
            kind = "an MLP" if form is MlpShape else "a GPT"
            raise InputError(f"model.{key}: {table.name} is {kind}, whose sizes are {', '.join(keys)}")
    for key in traits if form is MlpShape else ():
        raise InputError(f"model.{key}: {table.name} is an MLP, which has none; allowed: a GPT")
    lacking = [key for key in keys if key not in given]
    if not lacking:
        return form(name=table.name, source="scenario", **given, **traits)
    if known is None and len(given) > 1:
        raise InputError(f"model: a shape of your own needs all of {', '.join(keys)}; missing: {', '.join(lacking)}")
    return find_model(table.name).with_settings({**given, **traits})


def _form_of(known: Shape | None, given: Collection[str]) -> type[GptShape] | type[MlpShape]:
    """What the sizes are of: the kind of the named model, else an MLP where a size is given that only an MLP has."""
    if isinstance(known, GptShape | MlpShape):
        return type(known)
    return MlpShape if set(given) - set(sizes_of(GptShape)) else GptShape
