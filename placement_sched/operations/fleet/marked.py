"""YAML whose every value knows its line and column, so that a fault can be shown."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, Self, TypeVar

import yaml
from yaml.events import CollectionEndEvent, CollectionStartEvent
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.reader import ReaderError

from placement_sched.errors import Error, Invalid
from placement_sched.model.shape import Misfit

T = TypeVar("T")

#: So many levels of lists and mappings are read.
DEEPEST = 100

_PREFIX = "tag:yaml.org,2002:"
_MERGE = f"{_PREFIX}merge"
#: What a value may be; a date is a text here, and so is a lonely =.
_KINDS = frozenset(
    {"map", "seq", "str", "null", "bool", "int", "float", "timestamp", "value", "merge"}
)
#: Only what reads the same everywhere is a whole number: YAML 1.1 would read 010 as 8, 1:30 as 90.
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,19})")
#: Longer ones are texts: no database keeps them, nor does JSON that is read everywhere.
_LEAST, _MOST = -(2**63), 2**64 - 1
_FRACTION = re.compile(r"[-+]?[0-9]+\.[0-9]+([eE][-+]?[0-9]+)?")
_CONSTANTS = {
    "true": True, "yes": True, "on": True, "false": False, "no": False, "off": False,
}  # fmt: skip
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


class _Place(Protocol):
    """Where something stands: both parsers of PyYAML tell it, each by a type of its own."""

    @property
    def line(self) -> int:
        """Return how many lines are above it."""

    @property
    def column(self) -> int:
        """Return how many characters are before it."""


@dataclass(frozen=True, slots=True)
class End:
    """Where a text ends: how many lines are above it there, and how many characters before it."""

    line: int
    column: int

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the end of a text, its lines counted as YAML counts them."""
        *above, last = _LINE_BREAK.split(text)
        return cls(len(above), len(last))


class Marked:
    """A decoded YAML document, and where in its file everything stands."""

    def __init__(self, text: str, name: str) -> None:
        """Decode ``text``, which came from the file ``name``; raises :class:`Invalid`."""
        self._name = name
        self._made: dict[int, Any] = {}
        self._open: set[int] = set()
        try:
            self._refuse_deep(text)
            self._root = yaml.compose(text, Loader=yaml.CSafeLoader)
        except yaml.MarkedYAMLError as fault:
            self._refuse_mark(fault.problem or "this is no YAML", fault.problem_mark)
        except ReaderError as fault:
            # The parser in C counts bytes.
            before = text.encode()[: fault.position].decode()
            what = f"the character U+{fault.character:04X} cannot stand in YAML: {fault.reason}"
            self._refuse_mark(what, End.of(before))
        #: What the document says, in dicts, lists, texts, numbers, booleans and None.
        self.data: Any = None if self._root is None else self._value(self._root)

    def _refuse_deep(self, text: str) -> None:
        """Refuse what lies too deep: the parser in C would not survive to tell of it."""
        depth = 0
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            if isinstance(event, CollectionStartEvent):
                depth += 1
                if depth > DEEPEST:
                    self._refuse_mark(f"more than {DEEPEST} levels deep", event.start_mark)
            elif isinstance(event, CollectionEndEvent):
                depth -= 1

    def read(self, shape: Callable[[Any], T]) -> T:
        """Return what ``shape`` makes of the document; raises :class:`Invalid` with the place."""
        try:
            return shape(self.data)
        except Misfit as misfit:
            mark = self._mark(misfit.keys, at_key=misfit.at_key)
            self._refuse_mark(misfit.what, mark, misfit.keys)

    def told_at(self, error: Error, keys: Sequence[str | int]) -> Error:
        """Return an error as one at the value that these keys lead to, or what is nearest to it."""
        told = self._told(error.detail, self._mark(keys), keys)
        return type(error)(told, code=error.code, extra=error.extra)

    def _value(self, node: Node) -> Any:
        """Return what a node says; a node that is anchored is decoded once."""
        if id(node) in self._made:
            return self._made[id(node)]
        if id(node) in self._open:
            self._refuse_mark("an anchor is used within itself", node.start_mark)
        if node.tag.removeprefix(_PREFIX) not in _KINDS:
            self._refuse_mark(f"the tag {node.tag} is not known", node.start_mark)
        self._open.add(id(node))
        if isinstance(node, MappingNode):
            value: Any = self._mapping(node)
        elif isinstance(node, SequenceNode):
            value = [self._value(one) for one in node.value]
        elif isinstance(node, ScalarNode):
            value = self._scalar(node)
        else:
            raise AssertionError("YAML has no other nodes")  # noqa: TRY004 - nobody gave it
        self._open.discard(id(node))
        self._made[id(node)] = value
        return value

    def _mapping(self, node: MappingNode) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == _MERGE:
                merged = self._merged(value) | merged
                continue
            name = self._key(key)
            if name in own:
                self._refuse_mark(f"the key {name!r} is there twice", key.start_mark)
            own[name] = self._value(value)
        return merged | own

    def _merged(self, node: Node) -> dict[str, Any]:
        """Return what a merge key brings; of several mappings the first goes before the others."""
        parts = node.value if isinstance(node, SequenceNode) else [node]
        found: dict[str, Any] = {}
        for part in parts:
            if not isinstance(part, MappingNode):
                self._refuse_mark("only mappings can be merged", part.start_mark)
            found = self._value(part) | found
        return found

    def _key(self, node: Node) -> str:
        if not isinstance(node, ScalarNode):
            self._refuse_mark("a key is a plain text", node.start_mark)
        return str(node.value)

    def _scalar(self, node: ScalarNode) -> Any:
        text = str(node.value)
        kind = node.tag.removeprefix(_PREFIX)
        # What has quotes is a text; the parser in C writes "" for none.
        if node.style:
            return text
        if kind == "null":
            return None
        if kind == "bool":
            if text.lower() not in _CONSTANTS:
                self._refuse_mark(f"{text!r} is not a boolean", node.start_mark)
            return _CONSTANTS[text.lower()]
        if kind == "int" and _WHOLE.fullmatch(text) and _LEAST <= int(text) <= _MOST:
            return int(text)
        if kind == "float" and _FRACTION.fullmatch(text):
            return float(text)
        return text

    def _mark(self, keys: Sequence[str | int], *, at_key: bool = False) -> yaml.Mark | None:
        """Return where the value under these keys stands, or what is nearest above it.

        With ``at_key``, where the last key itself does.
        """
        node: Node | None = self._root
        mark = None if node is None else node.start_mark
        for place, key in enumerate(keys, 1):
            found = None if node is None else _under(node, key)
            if found is None:
                break
            node, of_value, of_key = found
            mark = of_key if at_key and place == len(keys) else of_value
        return mark

    def _refuse_mark(
        self, what: str, mark: _Place | None, keys: Sequence[str | int] = ()
    ) -> NoReturn:
        raise Invalid(self._told(what, mark, keys))

    def _told(self, what: str, mark: _Place | None, keys: Sequence[str | int]) -> str:
        place = self._name if mark is None else f"{self._name}:{mark.line + 1}:{mark.column + 1}"
        path = ".".join(map(str, keys))
        return f"{place}: {what}{f' (at {path})' if path else ''}"


def _under(node: Node, key: str | int) -> tuple[Node, yaml.Mark, yaml.Mark] | None:
    """Return the node under a key, where it stands, and where its key does.

    What is merged in stands elsewhere.
    """
    if isinstance(node, SequenceNode):
        if isinstance(key, int) and key < len(node.value):
            value = node.value[key]
            return value, value.start_mark, value.start_mark
        return None
    if not isinstance(node, MappingNode):
        return None
    for name, value in node.value:
        if isinstance(name, ScalarNode) and name.tag != _MERGE and name.value == str(key):
            # A key that is wrong is shown itself, and so is the beginning of what it holds.
            shown = name if isinstance(value, MappingNode) else value
            return value, shown.start_mark, name.start_mark
    for name, value in node.value:
        if name.tag == _MERGE:
            parts = value.value if isinstance(value, SequenceNode) else [value]
            for part in parts:
                if found := _under(part, key):
                    return found
    return None
