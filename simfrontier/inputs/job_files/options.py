"""Options of Megatron-LM in a shell script or text, and arguments in the table that a job's log begins with. Nothing
is run: variables that a script sets to plain values are put in for their names, and `$((4 * HIDDEN))` is computed."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final

from simfrontier.inputs.job_files.megatron import KNOWN_BY

_NAMES: Final = "|".join(KNOWN_BY)
_LOGGED: Final = re.compile(r"(?m)^.*?(\w+) \.{3,} (.*)$")
_SCRIPT: Final = re.compile(rf"--(?:{_NAMES.replace('_', '[-_]')})\b")
_OPTION: Final = re.compile(r"(?<![\w-])--([A-Za-z][\w-]*):?(?:[ \t=]+((?!--|[)|&;>])[^\s]+))?")
_SET: Final = re.compile(r"(?m)^\s*(?:export\s+|local\s+|readonly\s+)?([A-Za-z_]\w*)=(\S*)")
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^{}]*))?\}|\$([A-Za-z_]\w*)")
_DEEPEST: Final = 8  # variables of variables
_LONGEST: Final = 10_000  # characters: a variable that has itself several times grows without end
_ARITHMETIC: Final = re.compile(r"\$\(\(((?:[^()\n]|\([^()\n]{0,200}\)){1,200})\)\)")  # parentheses of one level
_OPERATORS: Final[Mapping[type[ast.operator], Callable[[int, int], int]]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul},
    ast.Div: lambda one, other: int(Fraction(one, other)),  # towards 0, as in a shell
}


def is_log(text: str) -> bool:
    return re.search(rf"(?m)\b(?:{_NAMES}) \.{{3,}} ", text) is not None


def is_script(text: str) -> bool:
    return _SCRIPT.search(text) is not None


def log_arguments(text: str) -> dict[str, Any]:
    """Return the arguments in a log's table by name."""
    out: dict[str, Any] = {}
    for name, value in _LOGGED.findall(text):
        _add(out, name, _value(value.strip()))
    return out


def script_options(text: str) -> dict[str, Any]:
    """Return the options in a script by name, with `_` for `-`. An option, or a variable in its place, that is set to
    several values has a text that says so."""
    plain = re.sub(r"(?m)(^|\s)#(?!SBATCH).*$", r"\1", text.replace("\r", ""))  # no `\` continues a comment
    plain = re.sub(r"[\"'`]", "", plain.replace("\\\n", " "))
    plain = _ARITHMETIC.sub(_in_one_word, plain)
    variables: dict[str, dict[str, None]] = {}
    for name, value in _SET.findall(plain):
        own = _VARIABLE.fullmatch(value)
        usual = own[2] if own is not None and own[1] == name else value  # NAME=${NAME:-usual}
        variables.setdefault(name, {})[usual or ""] = None
    out: dict[str, Any] = {}
    for line in plain.splitlines():
        for name, value in _OPTION.findall(line):
            word = _filled(value.rstrip(";" if "(" in value else ";)"), variables)
            is_flag = not word or word.startswith("--") or "[@]" in word
            _add(out, name.replace("-", "_"), True if is_flag else _value(word))
    return out


def _add(out: dict[str, Any], name: str, value: Any) -> None:
    known = out.setdefault(name, value)
    if known != value:
        out[name] = f"{known} and {value}"


def _filled(text: str, variables: Mapping[str, Mapping[str, None]]) -> str:
    """Return a text with the values of variables in place of their names."""
    for _ in range(_DEEPEST):
        before, text = text, _ARITHMETIC.sub(_computed, _VARIABLE.sub(lambda match: _of(match, variables), text))
        if text == before or len(text) > _LONGEST:
            break
    return text


def _of(match: re.Match[str], variables: Mapping[str, Mapping[str, None]]) -> str:
    name, usual = match[1] or match[3], match[2]
    values = list(variables.get(name, () if usual is None else (usual,)))
    if len(values) == 1:
        return values[0]
    return f"{name}, set to {' and '.join(values)}" if len(values) > 1 else usual or match[0]


def _in_one_word(match: re.Match[str]) -> str:
    """Return an expression without spaces, with `$` before the names of variables."""
    return re.sub(r"(?<![\w${])[A-Za-z_]", r"$\g<0>", re.sub(r"\s", "", match[0]))


def _computed(match: re.Match[str]) -> str:
    """Return the value of an expression of whole numbers; the text itself of another one."""
    try:
        return str(_number(ast.parse(match[1], mode="eval").body))
    except (SyntaxError, ValueError, ZeroDivisionError):
        return match[0]


def _number(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_number(node.left), _number(node.right))
    raise ValueError


def _value(text: str) -> Any:
    """Return a value as a number or a switch, if it is one."""
    if text in ("True", "true", "False", "false"):
        return text.lower() == "true"
    if text == "None":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
