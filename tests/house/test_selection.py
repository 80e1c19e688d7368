"""Which tests belong to which run."""

from pathlib import Path

import pytest

from tests.house.tree import PACKAGE
from tests.selection import PROCESSES, SLOW, SYSTEM, TESTS

#: Packages whose tests need processes or a broker, or that only nova's plugins use.
NOT_FAST = {"cli", "config", "notifications"}


@pytest.mark.parametrize("place", [*SYSTEM, *PROCESSES, *SLOW])
def test_what_is_left_out_is_there(place):
    module, _, function = place.partition("::")
    assert (TESTS / module).exists()
    assert not function or f"\ndef {function}(" in (TESTS / module).read_text()


def test_every_package_has_fast_tests():
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    left_out = {TESTS / place for place in (*SYSTEM, *PROCESSES, *SLOW)}

    def is_fast(module: Path) -> bool:
        return left_out.isdisjoint({module, *module.parents})

    fast = {name for name in packages if any(map(is_fast, (TESTS / name).rglob("test_*.py")))}
    assert packages - fast == NOT_FAST
