"""An XML file that nobody has checked, as a tree of elements: bounded, no DTD, no entities, comments passed over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from simfrontier.errors import InputError, shown
from simfrontier.limits import XML_ATTRIBUTES, XML_DEPTH, XML_ELEMENTS, XML_FILE, XML_VALUE, Limit
from simfrontier.plaintext import control_in
from simfrontier.records import dataclass

TITLE: Final = "topology XML"


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """One element, with the number of the line on which it begins."""

    name: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)

    def walk(self) -> Iterator[Element]:
        """This element and all inside, in the order of the file."""
        waiting = [self]
        while waiting:
            each = waiting.pop()
            yield each
            waiting.extend(reversed(each.children))


def read_xml(path: Path) -> Element:
    """The root element of a file. Raises InputError with the number of the line that is wrong."""
    from simfrontier.io import text_of

    text = text_of(path, TITLE, XML_FILE)
    if fault := control_in(text):
        raise InputError(fault, where=str(path))
    try:
        return _parsed(_without_comments(text))
    except InputError as error:
        raise error.within(str(path)) from None


def _without_comments(text: str) -> str:
    """The text with ends of lines alone where comments were. NCCL and RCCL end a comment at the first `-->`, and their
    own files have `--` inside comments, which XML itself does not allow."""
    parts, here = list[str](), 0
    while (start := text.find("<!--", here)) >= 0:
        end = text.find("-->", start + 4)
        if end < 0:
            raise InputError(f"line {text.count(chr(10), 0, start) + 1}: this comment has no end -->")
        parts += [text[here:start], "\n" * text.count("\n", start, end)]
        here = end + 3
    return "".join([*parts, text[here:]])


def _parsed(text: str) -> Element:
    from xml.parsers import expat

    tree = _Tree(expat.ParserCreate())
    try:
        tree.parser.Parse(text, True)
    except expat.ExpatError as error:
        said = expat.ErrorString(error.code) or "not well-formed"
        raise InputError(f"line {error.lineno}: not XML: {said}") from None
    assert tree.root is not None, "expat refuses a text without an element"
    return tree.root


class _Tree:
    """What expat tells, put together; every limit is checked before anything is kept."""

    def __init__(self, parser: Any) -> None:
        self.parser = parser
        self.root: Element | None = None
        self._open: list[Element] = []
        self._count = 0
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = self._doctype
        parser.ProcessingInstructionHandler = self._instruction

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._count += 1
        self._refuse(XML_ELEMENTS, self._count)
        self._refuse(XML_DEPTH, len(self._open) + 1)
        self._refuse(XML_ATTRIBUTES, len(attributes))
        for text in (name, *attributes, *attributes.values()):
            self._refuse(XML_VALUE, len(text))
            if control_in(text):  # written as a reference, as &#133;
                raise self._fault(f"control character in {ascii(text)[:40]}; allowed: text that can be shown")
        element = Element(name=name, attributes=attributes, line=self.parser.CurrentLineNumber)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def _end(self, _: str) -> None:
        self._open.pop()

    def _text(self, text: str) -> None:
        if text.strip():
            raise self._fault(f"got the text {shown(text.strip())}, allowed: elements with attributes alone")

    def _doctype(self, *_: object) -> None:
        raise self._fault("a document type is not read (it could define entities); allowed: elements alone")

    def _instruction(self, target: str, _: str) -> None:
        raise self._fault(f"got the instruction {shown(target)}, allowed: elements alone")

    def _refuse(self, limit: Limit, got: int) -> None:
        if fault := limit.fault(got):
            raise self._fault(fault)

    def _fault(self, what: str) -> InputError:
        return InputError(f"line {self.parser.CurrentLineNumber}: {what}")
