"""Parts that schemas are made of: names that a text may be, tables by name, and a document with its definitions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from simfrontier.io import DEFINITIONS, Schema

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
OWN_FILE: Final = (
    r"/|\.toml$"  # in a name: the path of a file of one's own, as machines, libraries and stacks are found
)


def reference(name: str) -> Schema:
    """What refers to a definition."""
    return {"$ref": DEFINITIONS + name}


def offered(schema: Schema) -> Schema:
    """Keywords that allow everything and show an editor what it may offer. Even Better TOML (taplo) completes by what
    it finds in `properties` and `anyOf`, and not by `if`, `then` and `else`."""
    return {"anyOf": [schema, True]}


def told(schema: Schema, sentence: str) -> Schema:
    """A schema that says of itself, and of what it offers, what it is."""
    ways = {
        "anyOf": [{**way, "description": sentence} if isinstance(way, dict) else way for way in schema.get("anyOf", ())]
    }
    return {**schema, **(ways if "anyOf" in schema else {}), "description": sentence}


def named_or_file(names: Iterable[str]) -> Schema:
    """Keywords of a text that is one of the names, or the path of a file of one's own."""
    known = {"enum": list(names)}
    return {**offered(known), "if": {"pattern": OWN_FILE}, "else": known}


def none_of(words: Collection[str]) -> str:
    """A regular expression of all texts but some. It has no lookahead, which not all engines know (Rust's `regex`, by
    which taplo finds what to offer)."""
    return f"^{_other(words)}$"


def _other(rests: Collection[str]) -> str:
    """The same of what may follow a text, where a word would go on with one of the `rests`."""
    firsts = sorted({rest[0] for rest in rests if rest})
    ways = [f"[^{''.join(map(_in_class, firsts))}].*" if firsts else ".+"]
    ways += [_escaped(first) + _other({rest[1:] for rest in rests if rest[:1] == first}) for first in firsts]
    return f"(?:{'|'.join(ways)})" + ("" if "" in rests else "?")


def _in_class(character: str) -> str:
    return f"\\{character}" if character in r"\]^-" else character


def _escaped(character: str) -> str:
    return f"\\{character}" if character in r"\^$.|?*+()[]{}" else character


def document(name: str, title: str, root: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """A whole schema, with those definitions that it refers to."""
    kept = _referred(root, definitions)
    head = {"$schema": DRAFT, "$id": f"urn:simfrontier:{name}", "title": title}
    return {**head, **root, "$defs": {each: definitions[each] for each in sorted(kept)}}


def _referred(root: Schema, definitions: Mapping[str, Schema]) -> set[str]:
    """Names of the definitions that a schema refers to, and of those that these refer to."""
    found: set[str] = set()
    waiting: list[Any] = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            waiting += node.values()
            name = str(node.get("$ref", "")).removeprefix(DEFINITIONS)
            if name and name not in found:
                found.add(name)
                waiting.append(definitions[name])
    return found
