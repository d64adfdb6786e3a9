"""The one reader: a document becomes a frozen value, or one line that names file, key, got, allowed and nearest."""

from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from annotated_types import Ge, Le
from tblib import pickling_support

from simfrontier.base.errors import InputError
from simfrontier.base.io import Derived, Part, Sourced, frozen, toml_of, typed


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    share: Annotated[Part, Sourced()]
    colour: Literal["red", "green"] = "red"
    sizes: tuple[Annotated[int, Ge(1), Le(9)], ...] = ()
    name: Annotated[str, Derived("")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    parts: dict[str, Share]
    either: int | tuple[int, ...] = 0


SHARE = 'share = { value = 1, kind = "quoted", source = "toy" }'


def said(text: str) -> str:
    with pytest.raises(InputError) as caught:
        typed(toml_of(text, "f.toml"), Whole, "f.toml")
    return str(caught.value)


def test_a_document_becomes_the_value() -> None:
    result = typed(toml_of(f"either = [1, 2]\n[parts.a]\n{SHARE}\nsizes = [1, 9]", "f"), Whole)
    assert result == Whole(parts={"a": Share(share=1.0, sizes=(1, 9))}, either=(1, 2))
    assert isinstance(result.parts["a"].share, float)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f"[parts.a]\n{SHARE}\ncolor = 1", 'f.toml: parts.a.color: unknown key; did you mean "colour"?'),
        ("[parts.a]", "f.toml: parts.a.share: missing, give { value, kind, source }"),
        (
            f"[parts.a]\n{SHARE.replace('1', '1.5')}",
            "f.toml: parts.a.share.value: got 1.5, allowed: at least 0 and at most 1",
        ),
        (
            f"[parts.a]\n{SHARE}\ncolour = 'rad'",
            'f.toml: parts.a.colour: got "rad", allowed: "red" or "green"; did you mean "red"?',
        ),
        (f"[parts.a]\n{SHARE}\nsizes = [1, 10]", "f.toml: parts.a.sizes[1]: got 10, allowed: at least 1 and at most 9"),
        (
            "a = 2020-01-01",
            "f.toml: not a TOML file: got the date or time 2020-01-01, allowed: texts, numbers, true and false",
        ),
    ],
)
def test_each_fault_is_one_line(text: str, wanted: str) -> None:
    assert said(text) == wanted


def test_a_moved_error_leaves_the_first_as_it_is_where_errors_are_pickled_by_dask() -> None:
    pickling_support.install(InputError)
    error = InputError("got 3, allowed: 4", key=("x",)).within("a.toml")
    assert str(error.within("b.toml", ("file",))) == "b.toml: file: a.toml: x: got 3, allowed: 4"
    assert str(error) == "a.toml: x: got 3, allowed: 4"


def test_documents_as_keys_are_equal_where_the_documents_are() -> None:
    one = {"a": [1, {"b": "x"}], "c": 2.5}
    assert frozen(one) == frozen({"c": 2.5, "a": [1, {"b": "x"}]})
    assert len({frozen(each) for each in (one, {"a": 1}, {"a": 1.0}, {"a": True}, {"a": [1]}, {"b": 1})}) == 6
