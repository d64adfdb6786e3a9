"""Records are as the standard library's frozen dataclasses are, method by method."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from functools import cached_property
from typing import Any

import pytest

from simfrontier.records import dataclass


def point(decorator: Any) -> Any:
    @decorator(frozen=True, slots=True, kw_only=True)
    class Point:
        """A place."""

        x: int
        y: float = 2.0
        names: list[str] = field(default_factory=list, compare=False)
        kept: dict[str, int] = field(default_factory=dict, hash=False)
        length: float = field(init=False, repr=False, default=0.0)

        def __post_init__(self) -> None:
            object.__setattr__(self, "length", self.x + self.y)

    return Point


def pair(decorator: Any) -> Any:
    @decorator(frozen=True, slots=True)
    class Pair:
        left: Any
        right: Any = None

    return Pair


@dataclass(frozen=True, kw_only=True)
class Base:
    name: str

    @cached_property
    def long(self) -> str:
        return self.name * 2


@dataclass(frozen=True, kw_only=True)
class Derived(Base):
    size: int = 1

    def __hash__(self) -> int:
        return 7


@dataclass(frozen=True, slots=True)
class Kept:
    one: int
    several: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Close:
    """Equal by a rule of its own."""

    value: float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Close) and round(self.value) == round(other.value)


OURS, THEIRS = point(dataclass), point(dataclasses.dataclass)


@pytest.mark.parametrize(
    "said",
    [
        lambda Point: repr(Point(x=1)).split("Point", 1)[1],
        lambda Point: Point(x=1, y=3.0).length,
        lambda Point: Point(x=1) == Point(x=1, names=["a"]),
        lambda Point: Point(x=1) == Point(x=2),
        lambda Point: Point(x=1) == 1,
        lambda Point: hash(Point(x=1)) == hash(Point(x=1, names=["a"])),
        lambda Point: hash(Point(x=1)) == hash(Point(x=1, kept={"a": 1})) and Point(x=1) == Point(x=1, kept={"a": 1}),
        lambda Point: len({Point(x=1), Point(x=1), Point(x=2)}),
        lambda Point: dataclasses.asdict(Point(x=1)),
        lambda Point: dataclasses.replace(Point(x=1), y=5.0).length,
        lambda Point: [each.name for each in dataclasses.fields(Point)],
        lambda Point: (Point.__match_args__, Point.__slots__, Point.__doc__, Point.__init__.__kwdefaults__["y"]),
        lambda Point: Point(x=1).names is Point(x=1).names,
        lambda Point: copy.deepcopy(Point(x=1, names=["a"])).names,
        lambda Point: hasattr(Point(x=1), "__dict__"),
    ],
)
def test_a_record_does_as_a_dataclass_does(said: Callable[[Any], Any]) -> None:
    assert said(OURS) == said(THEIRS)


@pytest.mark.parametrize("given", [{}, {"x": 1, "z": 2}, {"x": 1, "length": 2.0}])
def test_wrong_arguments_are_refused(given: dict[str, Any]) -> None:
    for made in (OURS, THEIRS):
        with pytest.raises(TypeError):
            made(**given)
    with pytest.raises(TypeError):
        OURS(1)


def test_fields_stand_in_order() -> None:
    for made in (pair(dataclass), pair(dataclasses.dataclass)):
        assert (made(1, 2).left, made(1, 2).right, made(1).right) == (1, 2, None)
        with pytest.raises(TypeError):
            made()


@pytest.mark.parametrize("name", ["x", "new"])
def test_a_record_cannot_be_changed(name: str) -> None:
    one = OURS(x=1)
    with pytest.raises(FrozenInstanceError):
        setattr(one, name, 3)
    with pytest.raises(FrozenInstanceError):
        delattr(one, name)
    assert one.x == 1


def test_records_inherit_and_keep_what_they_define() -> None:
    one = Derived(name="a", size=3)
    assert (one.long, one.long, hash(one)) == ("aa", "aa", 7)
    assert one == Derived(name="a", size=3) != Derived(name="a")
    assert Base(name="a") != one


def test_a_rule_of_equality_of_its_own_stays() -> None:
    assert Close(1.1) == Close(0.9) != Close(2.0)
    assert hash(Close(1.0)) == hash(Close(1.0))


def test_records_go_through_pickle() -> None:
    kept = Kept(1, (2, 3))
    again = pickle.loads(pickle.dumps(kept))
    assert again == kept and again is not kept
    assert pickle.loads(pickle.dumps(Derived(name="a"))) == Derived(name="a")
