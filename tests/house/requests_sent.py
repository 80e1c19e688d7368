# SPDX-License-Identifier: Apache-2.0
"""The requests that the tests send, as far as their source shows method and path.

Gabbi files state both. In Python, a request is a call such as ``client.put(f"{PATH}/{x}")``, or a
method followed by a path in a call or a table: ``("PUT", "/traits/{}")``. Names are replaced by the
values that the module assigns to them, and functions by their return values. An unknown part of a
path is a hole, ``{}``, which is a segment or the end of a segment.
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

HTTP_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}
_GABBI_PLACEHOLDER = re.compile(r"\$[A-Z_]+(\['[^']*'\])?(\.\$RESPONSE\['[^']*'\])?|\{\w*\}")
#: Maximum number of names that are followed, and of paths that an expression may have.
_MAX_NAME_DEPTH = 4
_MAX_PATHS = 60


@dataclass(frozen=True)
class SentRequest:
    """A request that a test sends, and the text of its file or gabbi test."""

    method: str
    path: str
    text: str

    def matches_route(self, method: str, template: str) -> bool:
        """Return whether this request fits a route. ``{}`` is a segment, ``{...}`` the rest."""
        path = self.path.partition("?")[0].rstrip("/")
        sent, expected = path.split("/"), template.split("/")
        if expected[-1] == "{...}":
            sent = sent[: len(expected)]
        return (
            method == self.method
            and len(sent) == len(expected)
            and all(map(_matches_path_segment, sent, expected))
        )


def _matches_path_segment(sent: str, expected: str) -> bool:
    return bool(sent) if expected in {"{}", "{...}"} else sent.removesuffix("{}") == expected


def read_gabbi_requests(file: Path) -> Iterator[SentRequest]:
    """Yield the requests of a gabbi file."""
    for test in yaml.safe_load(file.read_text())["tests"]:
        method = test.get("method") or next(iter(HTTP_METHODS & set(test)), "GET")
        path = test.get("url") or test.get(method) or ""
        yield SentRequest(method, _GABBI_PLACEHOLDER.sub("{}", path), str(test))


def read_module_requests(file: Path) -> Iterator[SentRequest]:
    """Yield the requests of a test module."""
    text = file.read_text()
    module = _ParsedTestModule(ast.parse(text))
    for method, expression in module.list_method_path_pairs():
        for path in module.resolve_strings(expression):
            if path.startswith("/"):
                yield SentRequest(method, path, text)


class _ParsedTestModule:
    """A test module, and the values of its names."""

    def __init__(self, tree: ast.Module) -> None:
        self._nodes = list(ast.walk(tree))

    @cached_property
    def _assigned_values(self) -> dict[str, list[ast.expr]]:
        values = defaultdict(list)
        for node in self._nodes:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                values[node.targets[0].id].append(node.value)
            elif isinstance(node, ast.FunctionDef):
                returns = (
                    child for child in ast.walk(node) if isinstance(child, ast.Return | ast.Yield)
                )
                values[node.name] += [child.value for child in returns if child.value is not None]
        return values

    def list_method_path_pairs(self) -> Iterator[tuple[str, ast.expr]]:
        """Yield methods with the expressions of their paths."""
        for node in self._nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                method = node.func.attr.removesuffix("_json").upper()
                if method in HTTP_METHODS:
                    yield method, node.args[0]
                for keyword in node.keywords:
                    if keyword.arg == "method":
                        yield from (
                            (each, node.args[0]) for each in self._list_methods(keyword.value)
                        )
            values = getattr(node, "args" if isinstance(node, ast.Call) else "elts", ())
            for method, path in pairwise(values):
                if isinstance(method, ast.Constant) and method.value in HTTP_METHODS:
                    yield method.value, path

    def _list_methods(self, expression: ast.expr) -> Iterator[str]:
        """Yield the methods that a test is parametrized with under this name."""
        for node in self._nodes if isinstance(expression, ast.Name) else ():
            match node:
                case ast.Call(args=[ast.Constant(value=name), values]) if name == expression.id:
                    constants = {getattr(node, "value", None) for node in ast.walk(values)}
                    yield from HTTP_METHODS & constants

    def resolve_strings(self, expression: ast.expr, depth: int = _MAX_NAME_DEPTH) -> list[str]:
        """Return the possible values of a string expression, with holes for unknown parts."""
        match expression:
            case ast.Constant(value=str(text)):
                return [re.sub(r"\{\w*\}", "{}", text)]
            case ast.JoinedStr(values=parts):
                choices = [self.resolve_strings(part, depth) for part in parts]
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                choices = [self.resolve_strings(left, depth), self.resolve_strings(right, depth)]
            case ast.FormattedValue(value=value):
                return self.resolve_strings(value, depth)
            case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)) if depth:
                strings = [
                    string
                    for value in self._assigned_values[name]
                    for string in self.resolve_strings(value, depth - 1)
                ]
                return [text for text in strings if text.startswith("/")][:_MAX_PATHS] or ["{}"]
            case _:
                return ["{}"]
        return ["".join(choice) for choice in product(*choices)][:_MAX_PATHS]
