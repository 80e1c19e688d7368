# SPDX-License-Identifier: Apache-2.0
"""What is done once for all tests, though each starts an application of its own.

Most tests start the whole application. Three quarters of that start read the migrations again,
parse and copy the policy rules, and compile paths and statements, which are always the same. What
is remembered depends on nothing but their text. Servers that tests start as processes have none
of this.
"""

import gc
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from alembic.util import pyfiles
from oslo_policy import policy
from sqlalchemy import Engine
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.util import LRUCache
from werkzeug.routing import Rule

#: More statements than the suite has.
_STATEMENTS = 10_000


@pytest.fixture(autouse=True, scope="session")
def _quick_start() -> Iterator[None]:
    """Load each migration, parse each policy rule, and compile each path and statement once."""
    with pytest.MonkeyPatch.context() as patch:
        load, load_once = pyfiles.load_module_py, cache(pyfiles.load_module_py)

        def load_module(name: str, path: str | Path) -> ModuleType:
            # To load env.py is to run the migrations.
            return load(name, path) if Path(path).name == "env.py" else load_once(name, path)

        patch.setattr(pyfiles, "load_module_py", load_module)
        patch.setattr(policy._parser, "parse_rule", cache(policy._parser.parse_rule))
        patch.setattr(policy.Enforcer, "register_default", _register)
        patch.setattr(Rule, "compile", _each_path_once())
        _compile_each_statement_once(patch)
        # Modules and tests stay for good: the garbage collector need not walk them again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000)
        yield


def _register(enforcer: policy.Enforcer, default: policy.RuleDefault) -> None:
    """Register a rule, which is made for this enforcer alone, without the copy of it."""
    assert default.name not in enforcer.registered_rules
    enforcer.registered_rules[default.name] = default


def _each_path_once() -> Callable[[Rule], None]:
    """Return what lets all rules of a path share what werkzeug makes of it.

    It makes the path's parts, and the functions that build an address: a rule binds them to itself.
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

    return shared


def _compile_each_statement_once(patch: pytest.MonkeyPatch) -> None:
    """Share the text that SQLAlchemy makes of a statement, between engines of one kind."""
    statements: LRUCache[Any, Any] = LRUCache(_STATEMENTS)
    make = Engine.__init__

    def made(engine: Engine, *arguments: Any, **options: Any) -> None:
        make(engine, *arguments, **options)
        engine._compiled_cache = statements

    def equal(one: DefaultDialect, other: object) -> bool:
        return isinstance(other, DefaultDialect) and _kind(one) == _kind(other)

    patch.setattr(Engine, "__init__", made)
    patch.setattr(DefaultDialect, "__eq__", equal)
    patch.setattr(DefaultDialect, "__hash__", lambda dialect: hash(type(dialect)))


def _kind(dialect: DefaultDialect) -> tuple[object, ...]:
    """Return what a dialect makes a statement's text by."""
    quote = dialect.identifier_preparer.initial_quote
    version = getattr(dialect, "server_version_info", None)
    return type(dialect), version, dialect.paramstyle, quote
