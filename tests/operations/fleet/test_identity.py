"""What is dumped and loaded into an empty database is the same cloud."""

from hypothesis import HealthCheck, given, settings

from placement_sched.operations.fleet.changes import changes
from placement_sched.operations.fleet.showing import text_of
from tests.operations.fleet.clouds import documents


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
@given(document=documents())
def test_dump_then_load_into_an_empty_database_is_the_identity(empty_cloud, document):
    one, other = empty_cloud(), empty_cloud()
    one.load(text_of(document))
    dumped = one.dump()
    other.load(dumped)
    assert changes(one.state, other.state) == changes(other.state, one.state) == ()
    assert one.state == other.state
    assert other.dump() == dumped
    # What says the same changes nothing, be it the file or what is dumped.
    assert one.load(text_of(document)) == one.load(dumped) == []
