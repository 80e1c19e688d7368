# SPDX-License-Identifier: Apache-2.0
"""YAML decoder that reports errors with line and column."""

import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, SequenceNode
from yaml.reader import ReaderError

from placement_sched.errors import Invalid
from placement_sched.model.document import Json
from placement_sched.schemas.formats import DocumentError

T = TypeVar("T")

_PREFIX = "tag:yaml.org,2002:"
_TEXT, _MERGE = f"{_PREFIX}str", f"{_PREFIX}merge"
#: Numbers that all YAML versions read alike: YAML 1.1 would read 010 as 8 and 1:30 as 90. Longer
#: numbers are texts, because databases and JSON readers do not support them.
_NUMBERS = {
    f"{_PREFIX}int": re.compile(r"-?(0|[1-9][0-9]{0,17})\Z|[1-9][0-9]{18}\Z"),
    f"{_PREFIX}float": re.compile(r"[-+]?[0-9]{1,17}\.[0-9]+([eE][-+][0-9]{1,2})?\Z"),
}
#: A date is a text, and so is a single =.
_NOT_RESOLVED = {*_NUMBERS, f"{_PREFIX}timestamp", f"{_PREFIX}value"}
_HEADER = "# A cloud, written by placement-sched fleet dump, for placement-sched fleet load.\n"


class _Loader(yaml.CSafeLoader):
    """Loader of mappings, lists, texts, decimal numbers, booleans and null."""

    def flatten_mapping(self, node: MappingNode) -> None:
        """Insert mappings of the merge key ``<<``, and reject repeated keys."""
        names = set()
        for key, _ in node.value:
            if key.tag == _MERGE:
                continue
            if (name := self.construct_scalar(key)) in names:
                raise ConstructorError(
                    problem=f"the key {name!r} is given twice", problem_mark=key.start_mark
                )
            names.add(name)
            key.tag = _TEXT
        super().flatten_mapping(node)
        # A name that occurs again replaces the merged value.
        node.value = list({key.value: (key, value) for key, value in node.value}.values())


_Loader.yaml_constructors = {
    tag: constructor
    for tag, constructor in yaml.CSafeLoader.yaml_constructors.items()
    if tag not in {f"{_PREFIX}{kind}" for kind in ("binary", "omap", "pairs", "set")}
}
_Loader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in resolvers if tag not in _NOT_RESOLVED]
    for letter, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
for _tag, _pattern in _NUMBERS.items():
    _Loader.add_implicit_resolver(_tag, _pattern, list("-+0123456789"))


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
            self._reject(error.problem or "this is not YAML", error.problem_mark)
        except ReaderError as error:
            # The C parser counts bytes.
            before = text.encode()[: error.position].decode()
            column = len(before.rpartition("\n")[2])
            mark = yaml.Mark(name, len(before), before.count("\n"), column, None, 0)
            message = f"the character U+{error.character:04X} is not valid in YAML: {error.reason}"
            self._reject(message, mark)
        except (KeyError, ValueError):
            self._reject("a value does not have the type of its tag", None)
        except RecursionError:
            self._reject("the values are nested too deeply", None)

    def read(self, reader: Callable[[Any], T]) -> T:
        """Call ``reader`` on the document, and add the position to its errors."""
        try:
            return reader(self.data)
        except DocumentError as error:
            path = ".".join(map(str, error.keys))
            problem = f"{error.detail}{f' (at {path})' if path else ''}"
            self._reject(problem, self.find_mark(error.keys, at_key=error.at_key))

    def find_mark(self, keys: Sequence[str | int], *, at_key: bool = False) -> Any:
        """Find the position of a value or key, or of its nearest parent."""
        node: Any = self.root
        mark = None if node is None else node.start_mark
        for position, key in enumerate(keys, 1):
            if isinstance(node, MappingNode):
                pairs = [(name, value) for name, value in node.value if name.value == str(key)]
            elif isinstance(node, SequenceNode) and isinstance(key, int):
                pairs = [(value, value) for value in node.value[key : key + 1]]
            else:
                break
            if not pairs:
                break
            name, node = pairs[0]
            is_marked_by_key = isinstance(node, MappingNode) or (at_key and position == len(keys))
            mark = (name if is_marked_by_key else node).start_mark
        return mark

    def _reject(self, problem: str, mark: Any) -> NoReturn:
        place = "" if mark is None else f":{mark.line + 1}:{mark.column + 1}"
        raise Invalid(f"{self._name}{place}: {problem}") from None


def to_yaml(document: Json) -> str:
    """Format a document as YAML."""
    return _HEADER + yaml.dump(
        document, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=100
    )
