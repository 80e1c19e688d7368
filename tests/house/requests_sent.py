# SPDX-License-Identifier: Apache-2.0
"""Which requests the tests send, as far as their text shows it: method, path and source.

Gabbi files say it plainly. In Python, a request is a call such as ``client.put(f"{PATH}/{x}")``, or
a method followed by a path, in a call or a table: ``("PUT", "/traits/{}")``. Names stand for what
the module assigns to them, functions for what they return. What remains unknown of a path is a
hole, ``{}``: one segment, or the end of one.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from pathlib import Path

import yaml

METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}
_GABBI_HOLE = re.compile(r"\$[A-Z_]+(\['[^']*'\])?(\.\$RESPONSE\['[^']*'\])?|\{\w*\}")
#: How many names may stand for one another, and how many paths one expression may mean.
_DEPTH = 4
_MOST = 60


@dataclass(frozen=True)
class SentRequest:
    """A request that a test sends: ``text`` is where, for what else must stand there."""

    method: str
    path: str
    text: str

    def matches(self, method: str, template: str) -> bool:
        """Return whether this is a request for a route: ``{}`` is a segment, ``{...}`` some."""
        path = self.path.partition("?")[0].rstrip("/")
        found, wanted = path.split("/"), template.split("/")
        if wanted[-1] == "{...}":
            found = found[: len(wanted)]
        return (
            method == self.method
            and len(found) == len(wanted)
            and all(map(_matches_segment, found, wanted))
        )


def _matches_segment(found: str, wanted: str) -> bool:
    return bool(found) if wanted in {"{}", "{...}"} else found.removesuffix("{}") == wanted


def read_gabbi_requests(file: Path) -> Iterator[SentRequest]:
    """Yield the requests of a gabbi file."""
    for test in yaml.safe_load(file.read_text())["tests"]:
        method = test.get("method") or next(iter(METHODS & set(test)), "GET")
        path = test.get("url") or test.get(method) or ""
        yield SentRequest(method, _GABBI_HOLE.sub("{}", path), str(test))


def read_module_requests(file: Path) -> Iterator[SentRequest]:
    """Yield the requests of a test module."""
    text = file.read_text()
    module = _Module(ast.parse(text))
    for method, expression in module.method_path_pairs():
        for path in module.resolve_strings(expression):
            if path.startswith("/"):
                yield SentRequest(method, path, text)


class _Module:
    """A test module, and what its names stand for."""

    def __init__(self, tree: ast.Module) -> None:
        self._nodes = list(ast.walk(tree))

    @cached_property
    def _resolve_names(self) -> dict[str, list[ast.expr]]:
        found = defaultdict(list)
        for node in self._nodes:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found[node.targets[0].id].append(node.value)
            elif isinstance(node, ast.FunctionDef):
                returned = (
                    one for one in ast.walk(node) if isinstance(one, ast.Return | ast.Yield)
                )
                found[node.name] += [one.value for one in returned if one.value is not None]
        return found

    def method_path_pairs(self) -> Iterator[tuple[str, ast.expr]]:
        """Yield methods, and the expressions of the paths that they are used with."""
        for node in self._nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                method = node.func.attr.removesuffix("_json").upper()
                if method in METHODS:
                    yield method, node.args[0]
                for keyword in node.keywords:
                    if keyword.arg == "method":
                        yield from ((each, node.args[0]) for each in self._methods(keyword.value))
            values = getattr(node, "args" if isinstance(node, ast.Call) else "elts", ())
            for method, path in pairwise(values):
                if isinstance(method, ast.Constant) and method.value in METHODS:
                    yield method.value, path

    def _methods(self, expression: ast.expr) -> Iterator[str]:
        """Yield the methods that a name stands for where a test is parametrized with them."""
        for node in self._nodes if isinstance(expression, ast.Name) else ():
            match node:
                case ast.Call(args=[ast.Constant(value=name), values]) if name == expression.id:
                    found = {getattr(one, "value", None) for one in ast.walk(values)}
                    yield from METHODS & found

    def resolve_strings(self, expression: ast.expr, depth: int = _DEPTH) -> list[str]:
        """Return what a string expression may be, with holes for what is unknown."""
        match expression:
            case ast.Constant(value=str(text)):
                return [re.sub(r"\{\w*\}", "{}", text)]
            case ast.JoinedStr(values=parts):
                found = [self.resolve_strings(part, depth) for part in parts]
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                found = [self.resolve_strings(left, depth), self.resolve_strings(right, depth)]
            case ast.FormattedValue(value=value):
                return self.resolve_strings(value, depth)
            case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)) if depth:
                meant = [
                    one
                    for value in self._resolve_names[name]
                    for one in self.resolve_strings(value, depth - 1)
                ]
                return [one for one in meant if one.startswith("/")][:_MOST] or ["{}"]
            case _:
                return ["{}"]
        return ["".join(choice) for choice in product(*found)][:_MOST]
