"""How a command ends, whatever comes up: with one line on standard error and a fixed exit code.

0 good; 1 the answer is no; 2 wrong input; 3 simfrontier could not go on: out of memory, output that nobody takes, or a
fault of its own; 130 stopped by Ctrl-C, 143 by SIGTERM.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from simfrontier.errors import SimfrontierError, exit_code_of_stop
from simfrontier.plaintext import one_line

CANNOT_GO_ON = 3
TRACEBACK = "--traceback"  # of the command line, before the verb


def run_to_end(program: str, command: Callable[[], object]) -> NoReturn:
    """Run a command line and leave with its exit code. A fault of simfrontier itself is one line, too; its traceback is
    shown where the first argument is `--traceback`."""
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
        code = _say(program, "stopped", exit_code_of_stop(stop))
    except SimfrontierError as error:
        code = _say(program, str(error), error.exit_code)
    except MemoryError:
        code = _say(program, "out of memory; allowed: a smaller job, or more memory", CANNOT_GO_ON)
    except OSError as error:
        _forget_output()
        where = f"{error.filename}: " if error.filename else "the output cannot be written: "
        code = _say(program, f"{where}{error.strerror or error}", CANNOT_GO_ON)
    except Exception as error:
        if (stopped := _stop_before(error)) is not None:
            code = _say(program, "stopped", exit_code_of_stop(stopped))
        else:  # a defect; whoever reports it needs to know where
            if sys.argv[1:2] == [TRACEBACK]:
                traceback.print_exc()
            code = _say(program, _words_of_defect(error), CANNOT_GO_ON)
    if code > 128:
        exec("")  # or Python ends by the signal where Ctrl-C has come in an `exec`, as there are some in imports
    gc.freeze()  # or the interpreter would look for cycles in all that is left before it ends
    sys.exit(code)


def _stop_before(error: BaseException) -> KeyboardInterrupt | None:
    """The Ctrl-C or SIGTERM for which an error was raised, as by a class whose making it fell into, or after it."""
    before = error.__cause__ or error.__context__
    return before if before is None or isinstance(before, KeyboardInterrupt) else _stop_before(before)


def _words_of_defect(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    where = f" ({os.path.basename(frames[-1].filename)} line {frames[-1].lineno})" if frames else ""
    return (
        f"a fault of simfrontier itself, not of its input: {type(error).__name__}: {error}{where}; please report it, "
        f"with what the same command prints with {TRACEBACK} before the verb"
    )


def _say(program: str, text: str, code: int) -> int:
    with suppress(OSError, ValueError):  # nobody listens
        sys.stderr.write(f"{program}: {one_line(text)}\n")
        sys.stderr.flush()
    return code


def _forget_output() -> None:
    """What is still to be written goes nowhere, so that the interpreter does not try again when it ends."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
