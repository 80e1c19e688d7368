# SPDX-License-Identifier: Apache-2.0
"""The order and number of moves, with random failures, interruptions and resumptions."""

from collections import Counter
from datetime import datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from placement_sched.extensions.what_if.plan_runs import PlanExecution
from placement_sched.model.plan_run import DONE, FAILED, METHODS, PLANNED, SKIPPED, STARTED, RunMove
from tests.exploring import scale_example_count
from tests.extensions.what_if.compute_service import build_nova_client, run_nova
from tests.support.scheduling import make_uuid

pytestmark = pytest.mark.slow

NOW = datetime(2026, 1, 1)


class KilledProcess(BaseException):
    """A BaseException that stands for the end of the process."""


class InMemoryMoveJournal:
    """A journal in memory that rejects moves until the moves they need have ended."""

    def __init__(self, uuids, needed_moves=()):
        self.states = dict.fromkeys(uuids, PLANNED)
        self.errors = {}
        self.started_at = {}
        self.run_states = []
        #: The move that must end before an instance is started.
        self.needed_moves = dict(needed_moves)
        self.checks = Counter()

    def change(self, body, uuid):
        """Change the run, or a move, as the scheduler API does."""
        if uuid is None:
            self.run_states.append(body["state"])
            return {}
        if body["state"] == STARTED:
            return {"rejection": self.start(uuid)}
        self.states[uuid] = body["state"]
        self.errors[uuid] = body["error"]
        return {}

    def start(self, uuid):
        self.checks[uuid] += 1
        if uuid in self.needed_moves and self.states[self.needed_moves[uuid]] != DONE:
            return "no space"
        self.states[uuid] = STARTED
        self.started_at[uuid] = NOW
        return None

    def moves(self):
        return [
            RunMove(
                instance=uuid,
                source="cn1",
                target="cn2",
                state=state,
                started_at=self.started_at.get(uuid),
            )
            for uuid, state in self.states.items()
        ]


@pytest.fixture
def nova():
    with run_nova() as nova:
        yield nova


def make_execution(nova, journal, **options):
    client = build_nova_client(nova.url)
    return PlanExecution(change=journal.change, nova=client, **{"sleep": lambda _: None, **options})


def add_servers(nova, number):
    uuids = [make_uuid(index) for index in range(1, number + 1)]
    for uuid in uuids:
        nova.add_server(uuid, "cn1")
    return uuids


def test_move_to_a_full_target_starts_after_the_move_that_frees_it(nova):
    uuids = add_servers(nova, 3)
    journal = InMemoryMoveJournal(uuids, {uuids[1]: uuids[0]})
    nova.polls = 4
    assert make_execution(nova, journal, parallel=3).run(journal.moves()) == DONE
    assert [uuid for uuid, _ in nova.list_actions()] == uuids
    # Rejected once, and checked again only after the end of the other move.
    assert journal.checks == {uuids[0]: 1, uuids[1]: 2, uuids[2]: 1}
    assert nova.max_moving == 2


def test_plan_execution_fails_if_the_last_pending_move_is_rejected(nova):
    uuids = add_servers(nova, 2)
    journal = InMemoryMoveJournal(uuids, {uuids[0]: uuids[1]})
    execution = make_execution(nova, journal, stops_on_failure=True)
    assert execution.run(journal.moves()) == FAILED
    assert journal.errors == {uuids[0]: "cn2 rejects it now: no space"}
    assert nova.list_actions() == []
    assert journal.run_states == [FAILED]


def test_migration_of_a_request_that_got_502_is_looked_up_in_nova(nova):
    (uuid,) = add_servers(nova, 1)
    journal = InMemoryMoveJournal([uuid])

    def fail_post_requests_with_502(method, _path):
        nova.failure = ("502 Bad Gateway", None) if method == "POST" else None

    nova.watch = fail_post_requests_with_502
    assert make_execution(nova, journal).run(journal.moves()) == FAILED
    assert "answered 502 Bad Gateway" in journal.errors[uuid]


def test_cold_migration_is_confirmed_after_a_resumption(nova):
    (uuid,) = add_servers(nova, 1)
    journal = InMemoryMoveJournal([uuid])
    build_nova_client(nova.url).cold_migrate(uuid, "cn2")
    nova.finish(uuid)
    journal.states[uuid] = STARTED
    assert make_execution(nova, journal).run(journal.moves()) == DONE
    assert nova.servers[uuid]["status"] == "ACTIVE"
    assert [name for _, name in nova.list_actions()] == ["migrate", "confirmResize"]


@pytest.mark.parametrize("state", [PLANNED, FAILED])
def test_resize_of_an_instance_whose_move_was_never_started_is_not_confirmed(nova, state):
    (uuid,) = add_servers(nova, 1)
    build_nova_client(nova.url).cold_migrate(uuid, "cn2")
    nova.finish(uuid)
    journal = InMemoryMoveJournal([uuid])
    journal.states[uuid] = state
    assert make_execution(nova, journal).run(journal.moves()) == DONE
    assert journal.errors == {uuid: "it is on cn2 now, not on cn1"}
    assert nova.servers[uuid]["status"] == "VERIFY_RESIZE"


def test_failed_move_that_was_started_is_looked_up_by_a_resumption(nova):
    (uuid,) = add_servers(nova, 1)
    journal = InMemoryMoveJournal([uuid])
    nova.held.add(uuid)
    assert make_execution(nova, journal, method="cold", timeout=0).run(journal.moves()) == FAILED
    nova.finish(uuid)
    assert make_execution(nova, journal).run(journal.moves()) == DONE
    assert [name for _, name in nova.list_actions()] == ["migrate", "confirmResize"]


def test_instance_that_is_deleted_in_its_move_is_skipped(nova):
    uuids = add_servers(nova, 2)
    journal = InMemoryMoveJournal(uuids)
    nova.held.add(uuids[0])
    execution = make_execution(nova, journal, sleep=lambda _: nova.servers.pop(uuids[0], None))
    assert execution.run(journal.moves()) == DONE
    assert journal.states == {uuids[0]: SKIPPED, uuids[1]: DONE}
    assert journal.errors[uuids[0]] == "it was deleted during its move"


@settings(
    max_examples=scale_example_count(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    number=st.integers(1, 6),
    parallel=st.integers(1, 3),
    polls=st.integers(0, 2),
    failing=st.sets(st.integers(1, 6)),
    kills=st.lists(
        st.tuples(st.sampled_from([KeyboardInterrupt, KilledProcess]), st.integers(0, 5))
    ),
    method=st.sampled_from(METHODS),
)
def test_random_interruptions_never_repeat_a_move_that_nova_has_made(
    number, parallel, polls, failing, kills, method
):
    with run_nova() as nova:
        uuids = add_servers(nova, number)
        nova.add_service("cn1")
        nova.force_down("cn1")
        nova.polls = polls
        nova.failing = {make_uuid(index) for index in failing} & set(uuids)
        failures = len(nova.failing)
        journal = InMemoryMoveJournal(uuids)
        for exception, remaining in [*kills, *[(None, 0)] * (failures + 1)]:
            budget = iter(range(remaining))

            def interrupt_or_fail_at_random(_seconds, exception=exception, budget=budget):
                if exception is not None and next(budget, None) is None:
                    raise exception

            execution = make_execution(
                nova, journal, parallel=parallel, method=method, sleep=interrupt_or_fail_at_random
            )
            try:
                state = execution.run(journal.moves())
            except KilledProcess:
                continue
            if state == FAILED:
                nova.failing -= {uuid for uuid, state in journal.states.items() if state == FAILED}
            if state == DONE:
                break
        assert set(journal.states.values()) == {DONE}
        assert {nova.host(uuid) for uuid in uuids} == {"cn2"}
        assert {server["status"] for server in nova.servers.values()} == {"ACTIVE"}
        begun = [uuid for uuid, name in nova.list_actions() if name != "confirmResize"]
        assert list(dict.fromkeys(begun)) == uuids
        assert nova.max_moving <= parallel
        repeated = {uuid for uuid, count in Counter(begun).items() if count > 1}
        assert repeated <= {make_uuid(index) for index in failing}
