# SPDX-License-Identifier: Apache-2.0
"""Place for real until nothing fits: what capacity has to say beforehand."""

from webtest import TestApp

from tests.support.scheduling import spec

CAPACITY = "/scheduler/v1/capacity"
SELECT = "/scheduler/v1/select_destinations"
#: Enough that a cloud of these tests is full before.
_MOST = 300


def asked(app: TestApp, status: int = 200, question: dict | None = None, **fields: object) -> dict:
    """Return the capacity of the request of these tests, changed by ``fields``."""
    request = spec(**fields)
    del request["instance_uuids"]
    body = {"request_spec": request, **(question or {})}
    return app.post_json(CAPACITY, body, status=status).json


def placed(app: TestApp, after=lambda _selection: None, **fields: object) -> list[str]:
    """Claim one instance after the other until the first no; return the hosts.

    ``after`` is called with each selection, as a host would report what was built on it.
    """
    hosts: list[str] = []
    while len(hosts) < _MOST:
        answer = app.post_json(SELECT, {"request_spec": spec(**fields)}, status="*")
        if answer.status_int == 409:
            assert answer.json["errors"][0]["code"] == "scheduler.no_valid_host"
            return hosts
        assert answer.status_int == 200, answer.text
        ((best, *_),) = answer.json["selections"]
        hosts.append(best["service_host"])
        after(best)
    raise AssertionError("it never gets full")


def told(answer: dict) -> str:
    """Return what an error says."""
    (error,) = answer["errors"]
    return str(error["detail"])
