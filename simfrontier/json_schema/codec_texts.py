"""Texts of codecs and policies of compression in scenario files, as JSON Schema: their names, and not what may follow
behind a colon."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema

from simfrontier.codecs import Codec, codec_names, parse_codec
from simfrontier.errors import InputError
from simfrontier.io import FormSchema, Schema
from simfrontier.json_schema.parts import offered
from simfrontier.plan import DIMENSIONS, PLAIN, POLICIES


class ScenarioSchema(FormSchema):
    """With codecs as the texts that mean them."""

    def is_instance_schema(self, schema: core_schema.IsInstanceSchema) -> JsonSchemaValue:
        return codec_text() if schema["cls"] is Codec else super().is_instance_schema(schema)

    def written_default(self, default: object) -> object:
        return str(default) if isinstance(default, Codec) else super().written_default(default)


def codec_text() -> Schema:
    """A codec: `fp16`, `int8:6144`, `zfp:16`, `plain`."""
    whole = [name for name in codec_names() if _is_whole(name)]
    return {
        "type": "string",
        "pattern": f"^{_any_of((PLAIN, *codec_names()))}(?::.*)?$",
        **offered({"enum": [PLAIN, *whole]}),
    }


def _is_whole(name: str) -> bool:
    """Whether a codec's name needs nothing behind it."""
    try:
        parse_codec(name)
    except InputError:
        return False
    return True


def compression() -> Schema:
    """What compresses messages: a policy's text, or a table of codecs by dimension."""
    policy = {"type": "string", "pattern": f"^{_any_of(POLICIES)}(?::.*)?$|=", **offered({"enum": list(POLICIES)})}
    table = {"type": "object", "properties": dict.fromkeys(DIMENSIONS, codec_text()), "additionalProperties": False}
    return {"if": {"type": "object"}, "then": table, "else": policy, **offered({"anyOf": [policy, table]})}


def _any_of(names: Iterable[str]) -> str:
    return f"(?:{'|'.join(map(re.escape, names))})"
