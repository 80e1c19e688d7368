# SPDX-License-Identifier: Apache-2.0
"""Caches that all tests share, although each starts its own application.

Most tests start the whole application. Three quarters of that time load migrations, parse and copy
policy rules, and compile paths and statements, always with the same result. The cached values
depend only on their text. Processes that tests start have no such caches.
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

from placement_sched.api import policy as api_policy
from placement_sched.api.policy_rules import RULES
from placement_sched.candidates.cache import CacheFigures, ProviderCache
from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.model.clock import Clock
from placement_sched.operations import prepare
from placement_sched.scheduler import caches
from placement_sched.store.placement.change_log import ChangeLog

#: More statements than the suite has.
_MAX_CACHED_STATEMENTS = 10_000
#: URLs of new copies of a database with the schema and the standard names.
NEW_DATABASE_URLS: set[str] = set()


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Stop the garbage collector, which would take a third of the time to collect the tests."""
    gc.disable()


@pytest.fixture(autouse=True, scope="session")
def _share_work_of_application_starts() -> Iterator[None]:
    """Load each migration, parse the policy rules, and compile each path and statement once."""
    with pytest.MonkeyPatch.context() as patch:
        load, load_once = pyfiles.load_module_py, cache(pyfiles.load_module_py)

        def load_migration_once(name: str, path: str | Path) -> ModuleType:
            # Loading env.py runs the migrations.
            return load(name, path) if Path(path).name == "env.py" else load_once(name, path)

        patch.setattr(pyfiles, "load_module_py", load_migration_once)
        patch.setattr(policy._parser, "parse_rule", cache(policy._parser.parse_rule))
        patch.setattr(policy.Enforcer, "register_default", _register_rule_without_copy)
        patch.setattr(api_policy, "_create_enforcer", _share_enforcer_of_default_rules())
        patch.setattr(prepare, "sync", _skip_sync_of_new_copies(prepare.sync))
        patch.setattr(caches, "ProviderCache", _create_cache_without_thread)
        patch.setattr(Rule, "compile", _share_compiled_paths())
        _share_compiled_statements(patch)
        # Modules and tests live until the end, so the garbage collector can skip them.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000)
        gc.enable()
        yield


def _register_rule_without_copy(enforcer: policy.Enforcer, default: policy.RuleDefault) -> None:
    """Register a rule without copying it, because the rule belongs to this enforcer alone."""
    assert default.name not in enforcer.registered_rules
    enforcer.registered_rules[default.name] = default


def _share_enforcer_of_default_rules() -> Callable[
    [Settings, tuple[api_policy.Rule, ...]], policy.Enforcer
]:
    """Return a replacement for _create_enforcer that shares the enforcer of the default rules."""
    create_enforcer = api_policy._create_enforcer
    cached: dict[str, policy.Enforcer] = {}

    def create_enforcer_once(
        settings: Settings, rules: tuple[api_policy.Rule, ...]
    ) -> policy.Enforcer:
        options = settings.conf.oslo_policy
        has_file = options.policy_file != "policy.yaml" or api_policy._list_files(settings.conf)
        if has_file or rules is not RULES:
            return create_enforcer(settings, rules)
        key = str(sorted(options.items()))
        if key not in cached:
            cached[key] = create_enforcer(settings, rules)
        return cached[key]

    return create_enforcer_once


def _skip_sync_of_new_copies(
    sync: Callable[[Database, Clock], None],
) -> Callable[[Database, Clock], None]:
    """Return a replacement for sync that trusts a database in ``NEW_DATABASE_URLS`` once."""

    def sync_unless_new_copy(database: Database, clock: Clock) -> None:
        url = database.url.render_as_string(hide_password=False)
        if url in NEW_DATABASE_URLS:
            NEW_DATABASE_URLS.remove(url)
            database.enable_commit_marks()
        else:
            sync(database, clock)

    return sync_unless_new_copy


def _create_cache_without_thread(
    changes: ChangeLog, *, report: Callable[[CacheFigures], None], open_connection: object
) -> ProviderCache:
    """Create the provider cache of a process, which the first search fills.

    A server fills its cache before it serves. With a thread that fills it, the speed of the machine
    would decide whether the first requests of a test find candidates in the cache or by SQL.
    """
    return ProviderCache(changes, report=report)


def _share_compiled_paths() -> Callable[[Rule], None]:
    """Return a replacement for Rule.compile that compiles each path once.

    It shares the parts of the path and the functions that build a URL, and binds these functions to
    the rule.
    """
    compile_path = Rule.compile
    cached: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def compile_path_once(rule: Rule) -> None:
        path_settings = (rule.host, rule.subdomain, rule.merge_slashes, rule.map.host_matching)
        converters = frozenset(rule.map.converters.items())
        key = (rule.rule, *path_settings, converters, *(rule.defaults or {}).items())
        if key not in cached:
            compile_path(rule)
            builders = rule._build.__func__, rule._build_unknown.__func__
            cached[key] = rule._parts, rule._trace, rule._converters, rule.arguments, builders
        rule._parts, rule._trace, rule._converters, arguments, builders = cached[key]
        rule.arguments = set(arguments)
        rule._build, rule._build_unknown = (builder.__get__(rule, None) for builder in builders)

    return compile_path_once


def _share_compiled_statements(patch: pytest.MonkeyPatch) -> None:
    """Share the compiled text of a statement between engines of equal dialects."""
    statements: LRUCache[Any, Any] = LRUCache(_MAX_CACHED_STATEMENTS)
    init_engine = Engine.__init__

    def init_engine_with_shared_statements(engine: Engine, *arguments: Any, **options: Any) -> None:
        init_engine(engine, *arguments, **options)
        engine._compiled_cache = statements

    def is_equal_dialect(dialect: DefaultDialect, other: object) -> bool:
        return isinstance(other, DefaultDialect) and _get_properties_that_determine_statements(
            dialect
        ) == _get_properties_that_determine_statements(other)

    patch.setattr(Engine, "__init__", init_engine_with_shared_statements)
    patch.setattr(DefaultDialect, "__eq__", is_equal_dialect)
    patch.setattr(DefaultDialect, "__hash__", lambda dialect: hash(type(dialect)))


def _get_properties_that_determine_statements(dialect: DefaultDialect) -> tuple[object, ...]:
    """Return the properties of a dialect that determine the text of a statement."""
    quote = dialect.identifier_preparer.initial_quote
    version = getattr(dialect, "server_version_info", None)
    return type(dialect), version, dialect.paramstyle, quote
