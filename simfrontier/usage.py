"""What the programs' command lines have in common: options before the verb, and usage errors in one line."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn, cast

import typer
from typer.core import TyperGroup

from simfrontier import __version__
from simfrontier.ending import TRACEBACK
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
EXIT_CODES: Final = (
    "Exit codes: 0 success; 1 check failed; 2 invalid input; 3 simfrontier failed (out of memory, output not writable, "
    "internal error); 130 stopped by Ctrl-C, 143 by SIGTERM. Errors are reported in one line."
)
HINT: Final = "; a list is one word, such as 8,64; a setting is --set key=value"


def program(name: str, sentence: str) -> typer.Typer:
    """A command line without verbs; `sentence`: what the program is for."""
    app = typer.Typer(
        name=name,
        cls=Verbs,
        add_completion=False,
        context_settings={"help_option_names": ["--help", "-h"]},
        pretty_exceptions_enable=False,
    )
    app.callback(help=f"{sentence}\n\n{EXIT_CODES}")(_before_a_verb)
    return app


def to_write(option: str, help: str) -> Any:
    """An option that names a file or folder to write. It raises InputError for an empty name, which would mean the
    folder that one is in, as `.` does for those who say it."""

    def parsed(text: str) -> Path:
        if not text.strip():
            raise InputError(f"{option}: got {text!r}; allowed: a name")
        return Path(text)

    return typer.Option(parser=parsed, metavar="PATH", help=help)


def _print_version(ctx: typer.Context, wanted: bool) -> None:
    if wanted:
        typer.echo(f"{ctx.command.name} {__version__}")
        raise typer.Exit


def _before_a_verb(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="print the version and exit")
    ] = False,
    traceback: Annotated[
        bool, typer.Option(TRACEBACK, help="print the traceback of an internal error (before the verb)")
    ] = False,
) -> None: ...


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
        raise InputError(f"no such command; {_verb_meant(word, self.list_commands(ctx))}", where=word)


def _verb_meant(word: str, verbs: list[str]) -> str:
    for program, names in VERBS.items():
        if word in names:
            return f'did you mean "{program} {word}"?'
    if near(word, verbs) is None and Path(word).suffix == ".toml" and "run" in verbs:
        return f'did you mean "run {word}"?'
    return _also_called(word, (*verbs, "--help", "--version")) or nearest(word, verbs)


def _also_called(word: str, known: Collection[str]) -> str:
    also = ALSO_CALLED.get(word.lower(), "")
    return f'did you mean "{also}"?' if also in known else ""


def _said(error: Any) -> InputError:
    """An error of typer's as one of ours: where, what, and what is allowed."""
    ctx, param = error.ctx, getattr(error, "param", None)
    verb = ctx.info_name if ctx is not None and ctx.parent is not None else ""
    if hasattr(error, "possibilities"):
        options = {
            name
            for each in ctx.command.get_params(ctx)
            for name in (*each.opts, *each.secondary_opts)
            if name[0] == "-"
        }
        said = _also_called(error.option_name, options) or meant(error.option_name, options)
        return InputError(
            f"no such option; {said}", where=f"{verb}: {error.option_name}" if verb else error.option_name
        )
    if param is None:
        hint = HINT if "extra argument" in error.message else ""
        return InputError(_decapitalised(error.message) + hint, where=verb)
    name = param.opts[0] if param.opts[0].startswith("-") else str(param.name)
    if hasattr(error, "param_type"):
        return InputError(f"missing; allowed: {param.help}", where=f"{verb}: {name}")
    faults: Sequence[Mapping[str, Any]] = getattr(error.__cause__, "errors", tuple)()  # pydantic's
    if not faults:
        return InputError(error.message, where=name)
    choices = param.type_descriptor.choices
    allowed = nearest(faults[0]["input"], choices) if choices else _allowed(faults[0]["msg"])
    return InputError(f"got {faults[0]['input']!r}; {allowed}", where=name)


def _allowed(message: str) -> str:
    """What a fault of pydantic's says, as what is allowed: `Input should be less than 8` as `allowed: less than 8`."""
    return _decapitalised(message).replace("input should be", "allowed:").split(", unable to")[0]


def _decapitalised(text: str) -> str:
    return (text[:1].lower() + text[1:]).removesuffix(".")
