"""The client of ``/scheduler/v1``."""

import socket

import pytest

from placement_sched.cli.main import main
from placement_sched.cli.scheduler.scheduler_access import SchedulerClient
from placement_sched.errors import Unavailable

pytestmark = pytest.mark.slow


def test_names_of_aggregates_that_cannot_be_had_are_none():
    assert SchedulerClient("http://127.0.0.1:1", "admin").aggregate_names() == {}


def test_a_server_that_takes_longer_may_still_be_working():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        base = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unavailable) as told:
            SchedulerClient(base, "admin", timeout=0.2).explain({})
    assert told.value.detail == (
        f"{base} did not answer within 0.2 s; it may still be working on the request: wait longer "
        "with --timeout SECONDS"
    )


SIZES = ("--vcpus", "1", "--ram", "1", "--disk", "0")
#: How Python hands over the argument $'\\xff'.
BYTE = "\udcff"
REQUESTS = [
    (["select", *SIZES, "--zone", BYTE], "--zone: "),
    (["explain", *SIZES, "--host", BYTE], "--host: "),
    (["explain", *SIZES, "--policy", BYTE], "--policy: "),
    (["select", *SIZES, "--property", f"a={BYTE}"], "--property a: "),
    (["select", *SIZES, "--property", f"{BYTE}=a"], "--property: "),
    (["plan", "--change", f"drain={BYTE}"], "--change drain=\\udcff: "),
    (["decisions", "list", "--host", BYTE], ""),
]


@pytest.mark.parametrize("given", [[], ["--url", "http://127.0.0.1:1"]], ids=["direct", "url"])
@pytest.mark.parametrize(("arguments", "place"), REQUESTS)
def test_argument_that_is_not_utf8_is_refused_with_its_place(
    sqlite_app, sqlite_url, monkeypatch, capsys, arguments, place, given
):
    assert sqlite_app  # its database has tables
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", sqlite_url)
    main([*arguments, *given])
    error = capsys.readouterr().err
    assert error.startswith(f"placement-sched: {place}")
    assert "\n" not in error[:-1]
    assert error.endswith("'\\udcff' is not valid UTF-8\n")


@pytest.mark.parametrize("command", ["policy", "hosts"])
def test_name_that_is_not_utf8_is_asked_of_no_server(capsys, command):
    main([command, "show", BYTE, "--url", "http://127.0.0.1:1"])
    assert capsys.readouterr().err == "placement-sched: '\\udcff' is not valid UTF-8\n"
