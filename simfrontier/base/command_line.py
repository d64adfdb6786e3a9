"""Common parts of the command-line programs: options before the verb, one-line error messages, and exit codes.

Exit codes: 0 success; 1 check failed; 2 invalid input; 3 unexpected error, with its traceback in a file that the
message names; 130 stopped by Ctrl-C, 143 stopped by SIGTERM.
"""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, Final, NoReturn, cast

import typer
from typer.core import TyperGroup

from simfrontier.base.errors import InputError, SimfrontierError, StoppedError, exit_code_of_stop, nearest, one_line
from simfrontier.base.version import __version__

# What typer raises for wrong words; it has no public name.
USAGE_ERROR: Final = cast(type[Exception], typer.BadParameter.__mro__[1])
UNFORESEEN: Final = 3
EXIT_CODES: Final = (
    "Exit codes: 0 success; 1 check failed; 2 invalid input; 3 anything unforeseen (its traceback is in a file that "
    "the line names); 130 stopped by Ctrl-C, 143 by SIGTERM. Errors are one line."
)


def program(name: str, sentence: str) -> typer.Typer:
    """Return the typer application of a program without verbs; `sentence` describes the purpose of the program."""
    app = typer.Typer(
        name=name,
        cls=Verbs,
        add_completion=False,
        context_settings={"help_option_names": ["--help", "-h"]},
        pretty_exceptions_enable=False,
    )
    app.callback(help=f"{sentence}\n\n{EXIT_CODES}")(_before_a_verb)
    return app


def _print_version(ctx: typer.Context, wanted: bool) -> None:
    if wanted:
        typer.echo(f"{ctx.command.name} {__version__}")
        raise typer.Exit


def _before_a_verb(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="print the version and stop")
    ] = False,
) -> None: ...


class Verbs(TyperGroup):
    """The verbs (subcommands) of a program; usage errors on the command line are raised as InputError."""

    def main(self, *arguments: Any, **extra: Any) -> NoReturn:
        try:
            code = super().main(*arguments, **{**extra, "standalone_mode": False})
        except USAGE_ERROR as error:
            raise _refused(cast(Any, error)) from None
        raise SystemExit(code or 0)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "" in args:  # such as a variable of the shell that is not set
            at = args.index("")
            where = args[at - 1] if at and args[at - 1].startswith("--") else f"argument {at + 1}"
            raise InputError("got an empty text; allowed: a name or a value", where=where)
        return super().parse_args(ctx, args or ["--help"])

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:  # of which typer would make exit code 130, without a word
            raise StoppedError("stopped", stop) from None


def _refused(error: Any) -> InputError:
    """Return a usage error of typer as an InputError, which suggests the nearest choice if the parameter has
    choices."""
    parameter: Any = getattr(error, "param", None)
    context: Any = getattr(error, "ctx", None)
    choices = getattr(getattr(parameter, "type_descriptor", None), "choices", None)
    faults: Any = getattr(error.__cause__, "errors", tuple)()  # pydantic's
    if choices and faults:
        return InputError(
            f"got {faults[0]['input']!r}; {nearest(faults[0]['input'], choices)}", where=parameter.opts[0]
        )
    verb = context.info_name if context is not None and context.parent is not None else ""
    return InputError(error.format_message(), where=verb)


def run_to_end(name: str, command: Callable[[], object]) -> NoReturn:
    """Run a command-line program, print its error in one line if there is one, and exit with its exit code."""
    code = 0
    try:
        try:
            command()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has seen enough
        _forget_output()
    except KeyboardInterrupt as stop:
        code = _say(name, "stopped", exit_code_of_stop(stop))
    except SimfrontierError as error:
        code = _say(name, str(error), error.exit_code)
    except Exception as error:
        stopped = _stop_before(error)
        if stopped is not None:
            code = _say(name, "stopped", exit_code_of_stop(stopped))
        else:
            _forget_output()
            words = f"{type(error).__name__}: {error}; the traceback is in {_traceback_file(name)}"
            code = _say(name, f"unforeseen error: {words}", UNFORESEEN)
    sys.exit(code)


def _stop_before(error: BaseException) -> KeyboardInterrupt | None:
    """Return the KeyboardInterrupt (Ctrl-C or SIGTERM) during whose handling an error was raised; None if there is
    none."""
    before = error.__cause__ or error.__context__
    return before if before is None or isinstance(before, KeyboardInterrupt) else _stop_before(before)


def _traceback_file(name: str) -> str:
    """Write the traceback of the current exception to a file, and return the path of the file."""
    try:
        with tempfile.NamedTemporaryFile("w", prefix=f"{name}-", suffix=".txt", delete=False, encoding="utf-8") as file:
            file.write(traceback.format_exc())
        return file.name
    except OSError:  # no space is left there, either
        return "no file: none can be written"


def _say(name: str, text: str, code: int) -> int:
    with suppress(OSError, ValueError):  # nobody listens
        sys.stderr.write(f"{name}: {one_line(text)}\n")
        sys.stderr.flush()
    return code


def _forget_output() -> None:
    """Discard unwritten standard output, so that the interpreter does not try to write it again at exit."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
