"""Types for the contents of files: annotations with the bounds that a reader checks, and tables as strict immutable
pydantic models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, Literal, TypeVar, cast

from annotated_types import Ge, Gt, Le, Len
from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, create_model
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError, PydanticOmit, core_schema as schema

from simfrontier.base.errors import InputError
from simfrontier.base.limits import LARGEST, LARGEST_SD

Kind = Literal["quoted", "measured", "fitted", "inferred", "assumed"]
Text = Annotated[str, Len(1)]
Positive = Annotated[float, Gt(0), Le(LARGEST)]
NotNegative = Annotated[float, Ge(0), Le(LARGEST)]
AtLeastOne = Annotated[float, Ge(1), Le(LARGEST)]
Share = Annotated[float, Gt(0), Le(1)]
Part = Annotated[float, Ge(0), Le(1)]
Deviation = Annotated[float, Ge(0), Le(LARGEST_SD)]  # of the logarithm of a time
SOURCED_KEYS: Final = ("value", "kind", "source")


class Rule:
    """Annotation with a further condition on a value: a predicate, the allowed values in words, and the keywords of
    JSON Schema that express the condition as far as possible."""

    def __init__(self, holds: Callable[[Any], bool], allowed: str, **keywords: object) -> None:
        self.holds, self.allowed, self.keywords = holds, allowed, keywords

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def held(value: Any) -> Any:
            if not self.holds(value):
                raise PydanticCustomError("rule", "{allowed}", {"allowed": self.allowed})
            return value

        return schema.no_info_after_validator_function(held, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(core), **self.keywords}


class Parsed:
    """Annotation of a value that is written as text in the file: the function that parses the text, or raises
    InputError."""

    def __init__(self, parse: Callable[[str], Any]) -> None:
        self.parse = parse

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def parsed(text: str) -> Any:
            try:
                return self.parse(text)
            except InputError as error:
                raise PydanticCustomError("said", "{what}", {"what": str(error)}) from None

        return schema.no_info_after_validator_function(parsed, schema.str_schema(strict=True))


Line = Annotated[str, Rule(lambda text: text != "" and text.isprintable(), "a text of one line", minLength=1)]


class Sourced:
    """Annotation of a number that is written in the file as a table with its source."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def field(inner: CoreSchema, required: bool = True) -> schema.TypedDictField:
            return schema.typed_dict_field(inner, required=required)

        number = handler(source)
        keys = {
            "value": field(number),
            "kind": field(handler.generate_schema(Kind)),
            "source": field(handler.generate_schema(Text)),
            "low": field(number, required=False),
            "high": field(number, required=False),
        }
        strict = schema.CoreConfig(strict=True, allow_inf_nan=False)
        table = schema.typed_dict_schema(keys, extra_behavior="forbid", config=strict)
        return schema.no_info_after_validator_function(_value, table)


SOURCED: Final = Sourced()


def _value(table: dict[str, Any]) -> Any:
    """Return the number in a validated table of value and source, after a check that the interval contains the
    value."""
    value, ends = table["value"], [table[key] for key in ("low", "high") if key in table]
    if len(ends) == 1:
        raise PydanticCustomError("said", "got one end of an interval, allowed: low and high, or neither")
    if ends and not ends[0] <= value <= ends[1]:
        text = "got {low} to {high}, allowed: around {value}"
        known = {"low": f"{ends[0]:g}", "high": f"{ends[1]:g}", "value": f"{value:g}"}
        raise PydanticCustomError("said", text, known)
    return value


class Names:
    """Annotation of a key or a text that must be one of some names. Names may be given by a function, which is called
    when a value is read. With `or_list`, a list of such names is allowed, too."""

    def __init__(self, *names: str | Callable[[], tuple[str, ...]], or_list: bool = False) -> None:
        self._names = names
        self._or_list = or_list

    @property
    def names(self) -> tuple[str, ...]:
        """The allowed names, in order."""
        return tuple(name for part in self._names for name in ((part,) if isinstance(part, str) else part()))

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def one_of_them(value: object) -> object:
            listed = value if self._or_list and isinstance(value, list) and value else [value]
            if any(not isinstance(each, str) or each not in self.names for each in listed):
                raise PydanticKnownError("literal_error", {"expected": ", ".join(self.names)})
            return value

        return schema.no_info_plain_validator_function(one_of_them)

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        one: dict[str, Any] = {"type": "string", "enum": list(self.names)}
        return {"anyOf": [one, {"type": "array", "items": one, "minItems": 1}]} if self._or_list else one


class Switch:
    """Annotation of a bool that is written as the number 0 or 1 in the file, so that overrides, which are numbers, can
    set it."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def switched(number: float) -> bool:
            if number not in (0.0, 1.0):
                raise PydanticCustomError("switch", "0 or 1")
            return number == 1.0

        def in_json(core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
            return {"enum": [0, 1]}

        number = schema.float_schema(strict=True, allow_inf_nan=False)
        own = {"pydantic_js_functions": [in_json]}  # of the number itself, which may stand in a table with its source
        return schema.no_info_after_validator_function(switched, number, metadata=own)


class Derived:
    """Annotation of a field that is derived from the rest of a file and that no file may contain; its value is `until`
    until it is derived."""

    def __init__(self, until: object) -> None:
        self.until = until

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        refused = schema.custom_error_schema(
            schema.is_instance_schema(_Nobody), custom_error_type="derived", custom_error_message="no key of a file"
        )
        return schema.with_default_schema(refused, default=self.until)

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        raise PydanticOmit


class _Nobody:
    """Type of a field that no file may set."""


class Strict(BaseModel):
    """Base of the tables of simfrontier's own files: types are not converted, and unknown keys are errors."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True, defer_build=True)


class External(BaseModel):
    """Base of the tables of other programs' files: unknown keys are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False, frozen=True, defer_build=True)


Form = TypeVar("Form", bound=Strict)


def extended(form: type[Form], more: Sequence[type[Strict]], name: str, owner: str) -> type[Form]:
    """Return a table type with the keys of `form` and also those of the types in `more`; it is a subclass of all of
    them. `name`, `owner`: name and module of the new type, by which pickle finds it."""
    if not more:
        return form
    bases: tuple[type[Strict], ...] = (form, *more)
    made = create_model(name, __base__=bases, __doc__=form.__doc__, __module__=owner)
    return cast("type[Form]", made)
