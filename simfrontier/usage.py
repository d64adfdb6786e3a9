"""What a command line says of words that its parser refuses: one line, as of any other wrong input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, cast

import typer
from typer.core import TyperGroup

from simfrontier.errors import InputError, StoppedError, meant, near, nearest

REFUSED: Final = cast(
    type[Exception], typer.BadParameter.__mro__[1]
)  # typer has no name of its own for what its parser raises
ALSO_CALLED: Final[Mapping[str, str]] = {
    **{"help": "--help", "version": "--version", "simulate": "run", "search": "tune", "--output": "--out"},
    **{"--sizes": "--devices", "--gpus": "--devices", "--gcds": "--devices"},
}
# The verbs of both programs without those of extras, in the order of --help: neither program imports the other's.
VERBS: Final[Mapping[str, tuple[str, ...]]] = {
    "simfrontier": (
        *("compare", "serve", "list", "run", "show", "check", "calibrate", "export", "import", "replay", "crosscheck"),
        *("validate", "tune", "sweep", "explain", "goodput", "algorithms", "topology", "schema", "doctor"),
    ),
    "simfrontier-real": ("replay", "train", "measure", "rates", "device", "gpu"),
}
NUMBERS: Final[Mapping[str, str]] = {  # what each of pydantic's rules allows
    **{"int_parsing": "a whole number", "int_from_float": "a whole number", "float_parsing": "a number"},
    **{"greater_than_equal": "at least {ge}", "less_than_equal": "at most {le}"},
}


class Verbs(TyperGroup):
    """A program's verbs. Without a word the program prints its help; `main` raises InputError for words that mean
    nothing."""

    def main(self, *arguments: Any, **extra: Any) -> NoReturn:
        try:
            code = super().main(*arguments, **{**extra, "standalone_mode": False})
        except REFUSED as error:
            raise _said(error) from None
        raise SystemExit(code or 0)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:  # of which typer would make exit code 130, without a word
            raise StoppedError("stopped", stop) from None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or ["--help"])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        word = args[0]
        if word.startswith("-") or self.get_command(ctx, word) is not None:
            return super().resolve_command(ctx, args)
        raise InputError(f"no such command; {self._meant(ctx, word)}", where=word)

    def _meant(self, ctx: Any, word: str) -> str:
        verbs = self.list_commands(ctx)
        for program, names in VERBS.items():
            if word in names:
                return f'did you mean "{program} {word}"?'
        if near(word, verbs) is None and Path(word).suffix == ".toml" and "run" in verbs:
            return f'did you mean "run {word}"?'
        also = ALSO_CALLED.get(word.lower())
        return f'did you mean "{also}"?' if also in (*verbs, "--help", "--version") else nearest(word, verbs)


def _said(error: Any) -> InputError:
    """What typer's error says, in the form of the project's own."""
    ctx, param = error.ctx, getattr(error, "param", None)
    verb = ctx.info_name if ctx is not None and ctx.parent is not None else ""
    if hasattr(error, "possibilities"):
        return InputError(f"no such option; {_option_meant(error.option_name, ctx)}", where=_place(verb, error))
    if hasattr(error, "option_name"):  # without its value, or with one too many
        return InputError(_decapitalised(error.message), where=verb)
    if param is None:
        usage = " ".join(ctx.command.collect_usage_pieces(ctx)) if ctx is not None else ""
        hint = "; a list is one word, such as 8,64; a setting is --set key=value" if verb else ""
        return InputError(f"{_decapitalised(error.message)}; allowed: {usage}{hint}", where=verb)
    name = param.opts[0] if param.opts[0].startswith("-") else str(param.name)
    if hasattr(error, "param_type"):
        return InputError(f"missing; allowed: {param.help}", where=f"{verb}: {name}")
    faults: Sequence[Mapping[str, Any]] = getattr(error.__cause__, "errors", tuple)()
    if faults and (words := NUMBERS.get(faults[0]["type"])):
        allowed = words.format_map(faults[0].get("ctx", {}))
        return InputError(f"got {faults[0]['input']!r}; allowed: {allowed}", where=name)
    return InputError(error.message, where=name)


def _place(verb: str, error: Any) -> str:
    return f"{verb}: {error.option_name}" if verb else str(error.option_name)


def _option_meant(option: str, ctx: Any) -> str:
    options = {name for each in ctx.command.get_params(ctx) for name in (*each.opts, *each.secondary_opts)}
    options = {name for name in options if name.startswith("-")}
    also = ALSO_CALLED.get(option.lower())
    return f'did you mean "{also}"?' if also in options else meant(option, options)


def _decapitalised(text: str) -> str:
    return (text[:1].lower() + text[1:]).removesuffix(".")
