"""Plans in the words of launch scripts and of published tables: `tp 8 pp 2 vp 4; fsdp; zero stage 1`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from simfrontier.base.errors import InputError, near, nearest, wrong
from simfrontier.core.plan import FAMILIES, TENSOR, ZERO
from simfrontier.inputs.scenario.added_keys import USUAL
from simfrontier.inputs.scenario.plans import ALSO_CALLED, DATA_KEY, OF_DATA, unknown_family

PLAN_KEYS: Final = {
    **{"tp": "tensor", "pp": "pipeline", "cp": "context", "ep": "expert", "etp": "expert_tensor"},
    **{"vp": "chunks", "vpp": "chunks", "dp": "data_ranks", "sp": "sequence_parallel"},
    **{"mbs": "micro_batch", "ga": "grad_accum"},
}
"""Keys of a plan by their usual abbreviations."""
OF_MEGATRON: Final = ("tensor", "pipeline", "context", "expert", "expert_tensor", "chunks")
OF_AXONN: Final = ("x", "y", "z")
ON_DATA: Final = "zero1"  # of a grid that names no plan on the data axes: Megatron-LM's distributed optimizer

_RECOMPUTE: Final = r"(?:activation )?(?:re-?comput(?:e|ation)|checkpointing)"
_PHRASES: Final = tuple(
    (re.compile(rf"(?<![a-z0-9_-])(?:{words})(?![a-z])"), key)
    for words, key in (
        (r"(?:use[- ])?dist(?:ributed)?[- ]opt(?:imi[sz]er)?", "zero1"),
        (r"(?:deepspeed )?zero[- ]?(?:stage[- ]?)?([0-3])(?!\d)", r"zero\1"),
        (rf"(?:no|without) {_RECOMPUTE}", "checkpointing none"),
        (rf"(full|selective) {_RECOMPUTE}", r"checkpointing \1"),
        (rf"{_RECOMPUTE} (full|selective|none)", r"checkpointing \1"),
        (r"(?:no|without) (?:sequence[-_ ]parallel(?:ism)?|sp)", "sequence_parallel false"),
        (r"sequence[-_ ]parallel(?:ism)?", "sequence_parallel"),
        (r"data[-_ ]parallel(?:ism)?(?:[-_ ](?:size|degree))?", "data_ranks"),
        (r"(tensor|pipeline|context|expert)[-_ ](?:model[-_ ])?parallel(?:ism)?(?:[-_ ](?:size|degree))?", r"\1"),
        (r"virtual(?:[-_ ]pipeline)?(?:[-_ ](?:stages|size))?", "chunks"),
        (r"micro[-_ ]?batch(?:[-_ ]size)?", "micro_batch"),
        (r"grad(?:ient)?[-_ ]accum(?:ulation)?(?:[-_ ]steps)?", "grad_accum"),
        (r"(?:order )?(?:interleaved 1f1b|interleaved)", "order interleaved"),
        (r"(?:order )?(?:zero[- ]bubble|zb-?h1)", "order zb-h1"),
        (r"(?:order )?(?:zb-?v)", "order zb-v"),
        (r"(?:order )?(1f1b|gpipe|dualpipev)", r"order \1"),
        (r"ulysses(?=[ =:]*\d)", "context_by heads context"),
        (r"(?:flash|fused)[- ]?attention", "attention fused"),
    )
)
_APART: Final = re.compile(rf"(?<![a-z0-9_-])({'|'.join(PLAN_KEYS)}|[xyz])(?=\d)")  # tp8


def split_plans(text: str) -> tuple[str, ...]:
    """Return the plans of a text: separated by `;`, or by commas where it has names alone (`zero3,hsdp`)."""
    is_list = ";" not in text and not any(word in PLAN_KEYS for word in _words(text))
    return tuple(filter(None, (part.strip() for part in text.split("," if is_list else ";"))))


def plan_in_words(text: str, names: Collection[str] = ()) -> tuple[str, dict[str, Any]]:
    """Return name and table of a plan in words: a family of the ZeRO kind, degrees of a grid (`tp 2 pp 4 vp 2 ep 8`),
    or both (`tp 2 ep 8 zero3`), beside any other key of a plan with its value (`micro_batch 2 dispatch deepep`), and
    what tables of published runs say (`distributed optimizer`, `selective recompute`, `fsdp 16`). `megatron` without
    degrees searches for the smallest usual grid that fits. Raises InputError
    for other words; `names` are further names that a user may have meant."""
    words = _words(text)
    name = re.sub(r"-(?=\d)", "", "-".join(_plain(text).replace("+", "p").split()))
    values, data, family = _read(text, words, names)
    if family is None and not set(values) & {*OF_MEGATRON, *OF_AXONN}:
        return name, {"family": data, **values} if data else {**values}
    family = family or ("axonn" if set(values) & set(OF_AXONN) else "megatron")
    form = TENSOR[family][0]
    inner = {key: values.pop(key) for key in [*values] if key == OF_DATA or key not in form.model_fields}
    if family == "megatron" and not {*values} & {*OF_MEGATRON}:
        values["search"] = {"by": USUAL.name}
    on_data = {"family": data or (ON_DATA if family == "megatron" else "ddp"), **inner}
    return name, completed({"family": family, **values, DATA_KEY: on_data})


def _plain(text: str) -> str:
    return _APART.sub(r"\1 ", re.sub(r"[\s=:,]+", " ", text.lower()).strip())


def _words(text: str) -> list[str]:
    plain = _plain(text)
    for pattern, key in _PHRASES:
        plain = pattern.sub(key, plain)
    return plain.split()


def _read(text: str, words: list[str], names: Collection[str]) -> tuple[dict[str, Any], str, str | None]:
    """Return the values of keys, the family on the data axes (empty: none is named), and the tensor-parallel family."""
    values: dict[str, Any] = {}
    data, family, left = "", None, iter(enumerate(words))
    for number, word in left:
        key, meant = PLAN_KEYS.get(word, word), ALSO_CALLED.get(word, word)
        following = words[number + 1] if number + 1 < len(words) else ""
        if key in _keys():
            is_switch = _keys()[key] is bool and following not in ("true", "false")
            value: Any = True if is_switch else value_in_words(following)
            if key in values or value == "":
                raise InputError(
                    f"plan {text!r}: {word} {following}".rstrip() + f"; allowed: {word} once, with its value"
                )
            if key in (*OF_MEGATRON, *OF_AXONN) and not _is_count(value):
                raise InputError(f"plan {text!r}: " + wrong(following, f"a whole number of at least 1 for {word}"))
            values[key] = value
            if not is_switch:
                next(left)
        elif meant in TENSOR and family is None:
            family = meant
        elif meant in ZERO and meant != "lattice" and not data:
            data = meant
            if word.startswith("fsdp") and following.isdecimal():  # ranks that share the weights: all of the data axes
                values["data_ranks"] = int(next(left)[1])
        elif meant in ZERO and data:
            raise InputError(f"plan {text!r}: {data} and {word}; allowed: one of them, or two plans separated by ;")
        elif len(words) == 1:
            raise InputError(unknown_family(text.strip(), {*names, *FAMILIES} - {"lattice"}), key=("plans",))
        else:
            usual = (*PLAN_KEYS, *FAMILIES)
            known = (*usual, *_keys()) if near(word, _keys()) else usual
            raise InputError(f"plan {text!r}: {word!r}; {nearest(word, known)}")
    return values, data, family


def _keys() -> Mapping[str, Any]:
    """Return the types of the keys of plans that have one value each."""
    forms = [form for form, _ in FAMILIES.values()]
    fields = {name: field.annotation for form in forms for name, field in form.model_fields.items()}
    return {name: kind for name, kind in fields.items() if name not in ("family", DATA_KEY)}


def value_in_words(word: str) -> int | bool | str:
    """Return the value of a key of a plan: a number, `true` or `false`, or the word itself."""
    if word.isdecimal() and len(word) < 10:
        return int(word)
    return word == "true" if word in ("true", "false") else word


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 2**20


def completed(table: dict[str, Any]) -> dict[str, Any]:
    """Return the table of a grid with what its degrees imply: layers divided among stages as evenly as they can be,
    the order of several chunks (and two of an order in V shape), activations cut along the sequence beside tensor
    parallelism."""
    implied: dict[str, Any] = {}
    if table.get("pipeline", 1) > 1:
        implied["layers"] = "even"
    if table.get("chunks", 1) > 1:
        implied["order"] = "interleaved"
    if table.get("order") in ("zb-v", "dualpipev"):
        implied["chunks"] = 2
    if table.get("tensor", 1) > 1:
        implied["sequence_parallel"] = True
    return {**table, **{key: value for key, value in implied.items() if key not in table}}
