"""An XML file as a tree of elements, read by defusedxml: no document type, no entities; comments are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Final
from xml.sax.handler import ContentHandler
from xml.sax.xmlreader import AttributesImpl, Locator

from simfrontier.errors import InputError, shown
from simfrontier.limits import DEPTH
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

    text = text_of(path, TITLE)
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
    from xml.sax import SAXParseException

    from defusedxml import DefusedXmlException
    from defusedxml.sax import parseString

    tree = _Tree()
    try:
        parseString(text.encode(), tree, forbid_dtd=True)
    except SAXParseException as error:
        raise InputError(f"line {error.getLineNumber()}: not XML: {error.getMessage()}") from None
    except DefusedXmlException:
        raise tree.fault("a document type is not read; allowed: elements alone") from None
    assert tree.root is not None, "a text without an element is not well-formed"
    return tree.root


class _Tree(ContentHandler):
    """Elements as a SAX parser reports them, put together."""

    def __init__(self) -> None:
        super().__init__()
        self.root: Element | None = None
        self._open: list[Element] = []

    def setDocumentLocator(self, locator: Locator) -> None:
        self._locator = locator

    def startElement(self, name: str, attrs: AttributesImpl) -> None:
        if len(self._open) == DEPTH:
            raise self.fault(f"elements nested too deeply; allowed: {DEPTH} levels")
        element = Element(name=name, attributes=dict(attrs.items()), line=self._locator.getLineNumber() or 0)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def endElement(self, name: str) -> None:
        self._open.pop()

    def characters(self, content: str) -> None:
        if content.strip():
            raise self.fault(f"got the text {shown(content.strip())}, allowed: elements with attributes alone")

    def processingInstruction(self, target: str, data: str) -> None:
        raise self.fault(f"got the instruction {shown(target)}, allowed: elements alone")

    def fault(self, what: str) -> InputError:
        """Return an error at the line that is being read."""
        return InputError(f"line {self._locator.getLineNumber()}: {what}")
