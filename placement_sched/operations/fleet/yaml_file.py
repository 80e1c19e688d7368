# SPDX-License-Identifier: Apache-2.0
"""YAML decoder that reports errors with line and column."""

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.reader import ReaderError

from placement_sched.errors import Error, Invalid
from placement_sched.model.document import Json
from placement_sched.schemas.formats import DocumentError

T = TypeVar("T")
#: A line and a column, both from 0.
Position = tuple[int, int]

_PREFIX = "tag:yaml.org,2002:"
_MERGE, _TEXT = f"{_PREFIX}merge", f"{_PREFIX}str"
#: Integers that all YAML versions read alike: YAML 1.1 would read 010 as 8 and 1:30 as 90.
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,19})\Z")
#: Integers outside this range are texts, as databases and JSON readers do not support them.
_MIN_INTEGER, _MAX_INTEGER = -(2**63), 2**64 - 1
_FRACTION = re.compile(r"[-+]?[0-9]+\.[0-9]+([eE][-+]?[0-9]+)?\Z")
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


class _Loader(yaml.CSafeLoader):
    """Loader of mappings with texts as keys, lists, texts, plain decimals, booleans and null."""

    def flatten_mapping(self, node: MappingNode) -> None:
        """Insert merged mappings. The keys of the mapping itself take precedence."""
        names = set()
        for key, _ in node.value:
            if key.tag == _MERGE:
                continue
            if (name := self.construct_scalar(key)) in names:
                raise _error(f"the key {name!r} is given twice", key)
            names.add(name)
            key.tag = _TEXT
        super().flatten_mapping(node)
        # A name that occurs again replaces the merged value.
        node.value = list({key.value: (key, value) for key, value in node.value}.values())

    def construct_scalar(self, node: ScalarNode | MappingNode) -> str:
        """Return the text of a scalar."""
        text = str(super().construct_scalar(node))
        if "\0" in text:
            raise _error("the character U+0000 cannot be stored", node)
        return text

    def construct_plain(self, node: ScalarNode) -> int | float | bool | str:
        """Return a number in range, a boolean, or else a text."""
        text = self.construct_scalar(node)
        if _INTEGER.match(text) and _MIN_INTEGER <= int(text) <= _MAX_INTEGER:
            return int(text)
        if _FRACTION.match(text) and math.isfinite(float(text)):
            return float(text)
        is_boolean = node.tag == f"{_PREFIX}bool"
        return self.bool_values.get(text.lower(), text) if is_boolean else text


# A date is a text, and so is a single =.
for _kind in ("bool", "int", "float", "timestamp", "value", "merge"):
    _Loader.add_constructor(f"{_PREFIX}{_kind}", _Loader.construct_plain)
# The loader has its own table of constructors by now.
for _kind in ("binary", "omap", "pairs", "set"):
    del _Loader.yaml_constructors[f"{_PREFIX}{_kind}"]


def _error(problem: str, node: Node) -> ConstructorError:
    return ConstructorError(problem=problem, problem_mark=node.start_mark)


class YamlFile:
    """A decoded YAML document with the positions of its values."""

    def __init__(self, text: str, name: str) -> None:
        """Decode the text of the file ``name``, or raise :class:`Invalid`."""
        self._name = name
        loader = _Loader(text)
        # An anchor is complete before its first alias, so that no value contains itself.
        loader.deep_construct = True
        try:
            #: The root node, or None for an empty document.
            self.root: Node | None = loader.get_single_node()
            #: The document in dicts, lists, texts, numbers, booleans and None.
            self.data: Any = None if self.root is None else loader.construct_document(self.root)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            place = None if mark is None else (mark.line, mark.column)
            self._reject(error.problem or "this is not YAML", place)
        except ReaderError as error:
            # The C parser counts bytes.
            readable = text.encode()[: error.position].decode()
            message = f"the character U+{error.character:04X} is not valid in YAML: {error.reason}"
            self._reject(message, end_of(readable))
        except RecursionError:
            self._reject("the values are nested too deeply", None)

    def read(self, reader: Callable[[Any], T]) -> T:
        """Return the result of ``reader``, with the position added to its errors."""
        try:
            return reader(self.data)
        except DocumentError as error:
            place = self._place(error.keys, at_key=error.at_key)
            message = self._message(error.what, place, error.keys)
            cause = error.cause if isinstance(error, EntryError) else Invalid("")
            raise type(cause)(message, code=cause.code, extra=cause.extra) from None

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


def _start(node: Node) -> Position:
    mark: Any = node.start_mark
    return mark.line, mark.column


def _find_child(node: Node, key: str | int) -> tuple[Node | None, Node] | None:
    """Return the nodes of a key and its value."""
    if isinstance(node, SequenceNode) and isinstance(key, int) and key < len(node.value):
        return None, node.value[key]
    pairs = node.value if isinstance(node, MappingNode) else ()
    return next(((name, value) for name, value in pairs if name.value == str(key)), None)


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
