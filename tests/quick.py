"""What is done once for all tests, though each starts an application of its own.

Most tests start the whole application. A third of that start reads the migrations again, and
parses and copies the policy rules, which are always the same.
"""

import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from alembic.util import pyfiles
from oslo_policy import policy


@pytest.fixture(autouse=True, scope="session")
def _quick_start() -> Iterator[None]:
    """Load each migration once, and parse each policy rule once."""
    with pytest.MonkeyPatch.context() as patch:
        load, load_once = pyfiles.load_module_py, cache(pyfiles.load_module_py)

        def load_module(name: str, path: str | Path) -> ModuleType:
            # To load env.py is to run the migrations.
            return load(name, path) if Path(path).name == "env.py" else load_once(name, path)

        patch.setattr(pyfiles, "load_module_py", load_module)
        patch.setattr(policy._parser, "parse_rule", cache(policy._parser.parse_rule))
        patch.setattr(policy.Enforcer, "register_default", _register)
        # Modules and tests stay for good: the garbage collector need not walk them again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000)
        yield


def _register(enforcer: policy.Enforcer, default: policy.RuleDefault) -> None:
    """Register a rule, which is made for this enforcer alone, without the copy of it."""
    assert default.name not in enforcer.registered_rules
    enforcer.registered_rules[default.name] = default
