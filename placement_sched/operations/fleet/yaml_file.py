# SPDX-License-Identifier: Apache-2.0
"""YAML decoder that reports errors with line and column."""

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import yaml
from yaml.events import CollectionEndEvent, CollectionStartEvent, Event
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.reader import ReaderError

from placement_sched.errors import Error, Invalid
from placement_sched.limits import MAX_YAML_DEPTH, MAX_YAML_REPEATED
from placement_sched.model.document import Json
from placement_sched.schemas.formats import DocumentError

T = TypeVar("T")
#: A line and a column, both from 0.
Position = tuple[int, int]

_TOO_DEEP = f"more than {MAX_YAML_DEPTH} levels deep"
#: Part of the message of PyYAML's parser for its own limit.
_DEPTH = "maximum nesting depth"

_PREFIX = "tag:yaml.org,2002:"
_MERGE = f"{_PREFIX}merge"
#: Tags of supported values. A date is a text, and so is a single =.
_KINDS = frozenset(
    {"map", "seq", "str", "null", "bool", "int", "float", "timestamp", "value", "merge"}
)
#: Integers that all YAML versions read alike: YAML 1.1 would read 010 as 8 and 1:30 as 90.
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,19})")
#: Integers outside this range are texts, as databases and JSON readers do not support them.
_MIN_INTEGER, _MAX_INTEGER = -(2**63), 2**64 - 1
_FRACTION = re.compile(r"[-+]?[0-9]+\.[0-9]+([eE][-+]?[0-9]+)?")
_CONSTANTS = {
    "true": True, "yes": True, "on": True, "false": False, "no": False, "off": False,
}  # fmt: skip
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_HEADER = "# A cloud, written by placement-sched fleet dump; placement-sched fleet load reads it.\n"


def end_of(text: str) -> Position:
    """Return the position of the end of a text, with the line breaks of YAML."""
    *above, last = _LINE_BREAK.split(text)
    return len(above), len(last)


class EntryError(DocumentError):
    """An error that is caused by an entry of a document, with the keys of the entry."""

    def __init__(self, cause: Error, what: str, *keys: str | int) -> None:
        super().__init__(what, *keys)
        self.cause = cause


class YamlFile:
    """A decoded YAML document with the positions of its values."""

    def __init__(self, text: str, name: str) -> None:
        """Decode the text of the file ``name``, or raise :class:`Invalid`."""
        self._name = name
        #: Maximum number of values: each value that is no alias has at least a character.
        self._max_values = len(text) + MAX_YAML_REPEATED
        #: Ids of the nodes that are being decoded.
        self._open: set[int] = set()
        try:
            self._check_depth(text)
            #: The root node, or None for an empty document.
            self.root: Node | None = yaml.compose(text, Loader=yaml.CSafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            place = None if mark is None else (mark.line, mark.column)
            problem = error.problem or "this is not YAML"
            # The parser of PyYAML 6.0.4 also has a limit, and reads ahead.
            self._reject(_TOO_DEEP if _DEPTH in problem else problem, place)
        except ReaderError as error:
            # The C parser counts bytes.
            readable = text.encode()[: error.position].decode()
            message = f"the character U+{error.character:04X} is not valid in YAML: {error.reason}"
            self._reject(message, end_of(readable))
        #: The document in dicts, lists, texts, numbers, booleans and None.
        self.data: Any = None if self.root is None else self._value(self.root)

    def _check_depth(self, text: str) -> None:
        """Reject a document whose depth would crash the C parser."""
        depth = 0
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
            if depth > MAX_YAML_DEPTH:
                self._reject(_TOO_DEEP, _start(event))

    def read(self, reader: Callable[[Any], T]) -> T:
        """Return the result of ``reader``, with the position added to its errors."""
        try:
            return reader(self.data)
        except DocumentError as error:
            place = self._place(error.keys, at_key=error.at_key)
            message = self._message(error.what, place, error.keys)
            cause = error.cause if isinstance(error, EntryError) else Invalid("")
            raise type(cause)(message, code=cause.code, extra=cause.extra) from None

    def _value(self, node: Node) -> Any:
        if id(node) in self._open:
            self._reject("an anchor is used within itself", _start(node))
        if node.tag.removeprefix(_PREFIX) not in _KINDS:
            self._reject(f"the tag {node.tag} is not supported", _start(node))
        self._open.add(id(node))
        self._max_values -= 1
        if self._max_values < 0:
            problem = f"aliases repeat more than {MAX_YAML_REPEATED} values, among them this value"
            self._reject(problem, _start(node))
        value: Any
        if isinstance(node, MappingNode):
            value = self._mapping(node)
        elif isinstance(node, SequenceNode):
            value = [self._value(item) for item in node.value]
        else:
            value = self._scalar(node)
        self._open.remove(id(node))
        return value

    def _mapping(self, node: MappingNode) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == _MERGE:
                # The first of several mappings takes precedence.
                for part in _merged_nodes(value):
                    if not isinstance(part, MappingNode):
                        self._reject("only mappings can be merged", _start(part))
                    merged = self._value(part) | merged
                continue
            if not isinstance(key, ScalarNode):
                self._reject("a key is a plain text", _start(key))
            name = self._text(key)
            if name in own:
                self._reject(f"the key {name!r} is given twice", _start(key))
            own[name] = self._value(value)
        return merged | own

    def _text(self, node: Node) -> str:
        text = str(node.value)
        if "\0" in text:
            self._reject("the character U+0000 cannot be stored", _start(node))
        return text

    def _scalar(self, node: Node) -> Any:
        text = self._text(node)
        kind = node.tag.removeprefix(_PREFIX)
        # A quoted scalar is a text. The C parser has the style "" for a plain scalar.
        if isinstance(node, ScalarNode) and node.style:
            return text
        if kind == "null":
            return None
        if kind == "bool":
            if text.lower() not in _CONSTANTS:
                self._reject(f"{text!r} is not a boolean", _start(node))
            return _CONSTANTS[text.lower()]
        if kind == "int" and _INTEGER.fullmatch(text) and _MIN_INTEGER <= int(text) <= _MAX_INTEGER:
            return int(text)
        if kind == "float" and _FRACTION.fullmatch(text) and math.isfinite(float(text)):
            return float(text)
        return text

    def _place(self, keys: Sequence[str | int], *, at_key: bool = False) -> Position | None:
        """Return the position of the value (or key), or of its nearest parent."""
        node = self.root
        place = None if node is None else _start(node)
        for position, key in enumerate(keys, 1):
            child = None if node is None else _find_child(node, key)
            if child is None:
                break
            name, node = child
            # A mapping has the position of its key, and so has a wrong key.
            by_key = isinstance(node, MappingNode) or (at_key and position == len(keys))
            place = _start(name if by_key and name is not None else node)
        return place

    def _reject(self, problem: str, place: Position | None) -> NoReturn:
        raise Invalid(self._message(problem, place, ()))

    def _message(self, problem: str, place: Position | None, keys: Sequence[str | int]) -> str:
        at = self._name if place is None else f"{self._name}:{place[0] + 1}:{place[1] + 1}"
        path = ".".join(map(str, keys))
        return f"{at}: {problem}{f' (at {path})' if path else ''}"


def _start(node: Node | Event) -> Position:
    mark: Any = node.start_mark
    return mark.line, mark.column


def _merged_nodes(node: Node) -> list[Node]:
    return node.value if isinstance(node, SequenceNode) else [node]


def _find_child(node: Node, key: str | int) -> tuple[Node | None, Node] | None:
    """Return the nodes of a key and its value, looking into merged mappings last."""
    if isinstance(node, SequenceNode):
        at_index = isinstance(key, int) and key < len(node.value)
        return (None, node.value[key]) if at_index else None
    if not isinstance(node, MappingNode):
        return None
    for name, value in node.value:
        if isinstance(name, ScalarNode) and name.tag != _MERGE and name.value == str(key):
            return name, value
    merged = [
        part for name, value in node.value if name.tag == _MERGE for part in _merged_nodes(value)
    ]
    return next((child for part in merged if (child := _find_child(part, key))), None)


class _Dumper(yaml.CSafeDumper):
    """Dumper that writes entries over several lines, and their values on one line."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        """Write every value in full."""
        return True


class _Entry(dict[str, Any]):
    """A mapping that is written over several lines."""


_Dumper.add_representer(
    _Entry,
    lambda dumper, data: dumper.represent_mapping(f"{_PREFIX}map", data.items(), flow_style=False),
)


def to_yaml(document: Json) -> str:
    """Return a document as YAML."""
    lines: Any = _Entry(document)
    for key, value in document.items():
        if isinstance(value, list):
            lines[key] = [_Entry(item) if isinstance(item, dict) else item for item in value]
    return _HEADER + yaml.dump(
        lines,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=100,
        default_flow_style=None,
    )
