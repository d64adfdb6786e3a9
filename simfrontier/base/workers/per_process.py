"""What every process makes for itself once and keeps from call to call: caches."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar
from uuid import uuid4

T = TypeVar("T")
MOST_KEPT: Final = 8  # of a worker, which may live longer than those that it works for
_kept: OrderedDict[str, PerProcess[Any]] = OrderedDict()  # of a worker process, by name


class PerProcess(Generic[T]):
    """A value among a call's arguments that is not sent: `make(*given)`, made by each process when a call there first
    asks for it, and kept for the calls that follow. `here`: what this process has already.

    Results must not depend on what is kept: it is a matter of time alone.
    """

    def __init__(self, make: Callable[..., T], *given: Any, here: T | None = None, name: str = "") -> None:
        self._make, self._given, self._here = make, given, here
        self._name = name or uuid4().hex

    @property
    def here(self) -> T:
        """The value of this process."""
        if self._here is None:
            self._here = self._make(*self._given)
        return self._here

    def __reduce__(self) -> tuple[Callable[..., PerProcess[T]], tuple[Any, ...]]:
        return _arrived, (self._name, self._make, *self._given)


def _arrived(name: str, make: Callable[..., T], *given: Any) -> PerProcess[T]:
    """In a worker: the one that came with an earlier call, or a new one."""
    known = _kept.get(name)
    if known is None:
        known = _kept[name] = PerProcess(make, *given, name=name)
    _kept.move_to_end(name)
    if len(_kept) > MOST_KEPT:
        _kept.popitem(last=False)
    return known
