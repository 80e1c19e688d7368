"""Reads from nova's records what became of a request: on which host an instance went first.

The records are those of ``nova/databases/placements.py``. Facts, from nova's documentation of
server and migration states: a boot without a valid host ends in cell0; a move without one ends its
migration in ``error``; and an instance's actions have an event for each attempt on a host, and one
of the conductor that has failed where it found no host.
"""

from collections.abc import Iterator

from placement_sched.nova.databases.placements import ActionEvent, NovaRecord
from placement_sched.nova.shadow.comparing import NovaOutcome
from placement_sched.nova.shadow.notes import HostName

#: The events by which computes begin with an instance that was placed there.
_ATTEMPTS = frozenset(
    {
        "compute__do_build_and_run_instance",
        "compute_prep_resize",
        "compute_rebuild_instance",
        "compute_unshelve_instance",
    }
)
#: The event of the conductor that asks whether an instance may be rebuilt where it is.
_REBUILD = "rebuild_server"
_FAILED = ("error", "failed")
_SUCCESS = "Success"
#: How the fault of an instance begins that was never placed.
_NO_VALID_HOST = "No valid host"


def outcome_of(record: NovaRecord, *, is_rebuild: bool = False) -> NovaOutcome | None:
    """Return what nova did with an instance; None where it is not known yet."""
    if any(event.is_no_valid_host for event in record.events):
        return NovaOutcome(None)
    if record.is_buried:
        known = record.fault is None or record.fault.startswith(_NO_VALID_HOST)
        return NovaOutcome(None) if known else None
    if is_rebuild:
        return _of_rebuild(record)
    attempts = list(_attempts(record))
    if attempts:
        first, last = attempts[0], attempts[-1]
        return NovaOutcome(first, ended_on=None if last.host == first.host else last)
    move = record.migration
    if move is not None:
        if move.dest_compute and move.status not in _FAILED:
            return NovaOutcome(HostName(move.dest_compute, move.dest_node or move.dest_compute))
        return NovaOutcome(None) if move.status in _FAILED and not move.dest_compute else None
    return None


def _of_rebuild(record: NovaRecord) -> NovaOutcome | None:
    """Return that the instance may stay where it is, once a compute or the conductor says so."""
    done = any(
        event.event in _ATTEMPTS or (event.event == _REBUILD and event.result == _SUCCESS)
        for event in record.events
    )
    if not done or record.host is None:
        return None
    return NovaOutcome(HostName(record.host, record.node or record.host))


def _attempts(record: NovaRecord) -> Iterator[HostName]:
    """Yield the hosts on which computes began with the instance, in this order."""
    for event in record.events:
        if event.event in _ATTEMPTS and event.host:
            yield HostName(event.host, _node_of(record, event))


def _node_of(record: NovaRecord, event: ActionEvent) -> str:
    """Return the node of an attempt: the instance's or the migration's own, if on that host."""
    host, move = event.host or "", record.migration
    if record.host == host and record.node:
        return record.node
    if move is not None and move.dest_compute == host and move.dest_node:
        return move.dest_node
    return host
