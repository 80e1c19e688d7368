"""What the tests of the search may ask for beside a database."""

from collections.abc import Iterator

import pytest

from tests.candidates.sources import mirrored


@pytest.fixture(params=["database", "mirror"])
def each_source(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run a test with the database alone, then with a mirror that follows it."""
    if request.param == "database":
        yield
        return
    with mirrored():
        yield
