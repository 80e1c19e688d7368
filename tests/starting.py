"""Lets applications start quickly, as tests start thousands.

Three quarters of the time that an application takes to start, libraries do again what they did for
the application before: here they remember it. What they remember depends on nothing but the text
of a path or of a rule. A server that tests start as a process has none of this.
"""

from copy import copy
from functools import cache
from typing import Any

from oslo_policy import _parser, policy
from sqlalchemy import Engine
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.util import LRUCache
from werkzeug.routing import Rule

#: More statements than the suite has.
_STATEMENTS = 10_000


def start_quickly() -> None:
    """Let applications share what libraries make of paths, policies and statements."""
    _compile_each_path_once()
    _read_each_policy_once()
    _compile_each_statement_once()


def _compile_each_path_once() -> None:
    """Share what werkzeug makes of a path: its parts, and the functions that build its address.

    A rule binds such a function to itself.
    """
    compile_path = Rule.compile
    known: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def shared(rule: Rule) -> None:
        place = (rule.host, rule.subdomain, rule.merge_slashes, rule.map.host_matching)
        meant = frozenset(rule.map.converters.items())
        key = (rule.rule, *place, meant, *(rule.defaults or {}).items())
        if key not in known:
            compile_path(rule)
            builders = rule._build.__func__, rule._build_unknown.__func__
            known[key] = rule._parts, rule._trace, rule._converters, rule.arguments, builders
        rule._parts, rule._trace, rule._converters, arguments, builders = known[key]
        rule.arguments = set(arguments)
        rule._build, rule._build_unknown = (one.__get__(rule, None) for one in builders)

    Rule.compile = shared


def _read_each_policy_once() -> None:
    """Share the checks that oslo.policy makes of a rule's text, of which it makes deep copies.

    It changes the rules, which are still each application's own, and never the checks.
    """
    _parser.parse_rule = cache(_parser.parse_rule)
    for kind in (policy.RuleDefault, policy.DeprecatedRule):
        kind.__deepcopy__ = lambda rule, _memo: copy(rule)


def _compile_each_statement_once() -> None:
    """Share the text that SQLAlchemy makes of a statement, between engines of one kind."""
    statements: LRUCache[Any, Any] = LRUCache(_STATEMENTS)
    make = Engine.__init__

    def made(engine: Engine, *arguments: Any, **options: Any) -> None:
        make(engine, *arguments, **options)
        engine._compiled_cache = statements

    def equal(one: DefaultDialect, other: object) -> bool:
        return isinstance(other, DefaultDialect) and _kind(one) == _kind(other)

    Engine.__init__ = made
    DefaultDialect.__eq__ = equal
    DefaultDialect.__hash__ = lambda dialect: hash(type(dialect))


def _kind(dialect: DefaultDialect) -> tuple[object, ...]:
    """Return what a dialect makes a statement's text by."""
    quote = dialect.identifier_preparer.initial_quote
    version = getattr(dialect, "server_version_info", None)
    return type(dialect), version, dialect.paramstyle, quote
