# SPDX-License-Identifier: Apache-2.0
"""GET requests of a reader: repeated calls, pace, pages and tokens."""

from signal import SIGINT, default_int_handler, pthread_kill, signal
from threading import main_thread
from time import sleep
from typing import ClassVar

import pytest
import requests
from keystoneauth1.adapter import Adapter
from keystoneauth1.plugin import BaseAuthPlugin
from keystoneauth1.session import Session

from placement_sched.clients.api_reader import MAX_ATTEMPTS, ApiReader, CallPool, Listing
from placement_sched.clients.session import TIMEOUT
from placement_sched.errors import ServiceFailed
from tests.clients.generated_apis import BASES, GeneratedCloud
from tests.clients.in_process import FunctionTransport

URL = f"http://cloud{BASES['compute']}"
SERVERS = f"{BASES['compute']}/servers/detail"
LISTING = Listing(path="/servers/detail", key="servers", rule="rule", version=(2, 100))


@pytest.fixture
def pauses():
    return []


@pytest.fixture
def pool(pauses):
    with CallPool(2, sleep=pauses.append) as pool:
        yield pool


def get(cloud, pool):
    return cloud.open_readers(pool)[1].get("/os-services", version=(2, 100)).document


def fail_first(count, *reply):
    return lambda number: reply if number < count else None


def test_busy_service_is_called_again_after_the_time_that_it_requests(pool, pauses):
    fault = fail_first(2, 429, {}, {"Retry-After": "7"})
    cloud = GeneratedCloud(faults={f"{BASES['compute']}/os-services": fault})
    assert len(get(cloud, pool)["services"]) == 3
    assert pauses == [7, 7]
    assert pool.calls == 3


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_failing_service_is_called_again_with_longer_pauses(pool, pauses, status):
    fault = fail_first(3, status, "no JSON", {})
    cloud = GeneratedCloud(faults={f"{BASES['compute']}/os-services": fault})
    get(cloud, pool)
    assert len(pauses) == 3
    assert 0 < pauses[0] <= 1 < pauses[2] <= 4


def test_service_that_stays_busy_is_an_error(pool):
    fault = fail_first(100, 503, {"message": "busy"}, {})
    cloud = GeneratedCloud(faults={f"{BASES['compute']}/os-services": fault})
    words = rf"503 .* to GET /os-services \({MAX_ATTEMPTS} attempts\)"
    with pytest.raises(ServiceFailed, match=words):
        get(cloud, pool)
    assert pool.calls == MAX_ATTEMPTS


def test_truncated_body_is_read_again_and_then_an_error(pool):
    path = f"{BASES['compute']}/os-services"
    cloud = GeneratedCloud(faults={path: fail_first(1, 200, '{"services": [', {})})
    get(cloud, pool)
    cloud.faults = {path: fail_first(100, 200, '{"services": [', {})}
    with pytest.raises(ServiceFailed, match="sent no complete JSON to GET /os-services"):
        get(cloud, pool)


def test_document_of_another_shape_is_an_error(pool):
    path = f"{BASES['compute']}/servers/detail"
    cloud = GeneratedCloud(faults={path: lambda _: (200, {"instances": []}, {})})
    with pytest.raises(ServiceFailed, match="does not match the compute API"):
        cloud.open_readers(pool)[1].read_pages(LISTING)


class FlakyTransport(FunctionTransport):
    """A network that loses the first responses."""

    lost = 3

    def send(self, request, **options):
        response = super().send(request, **options)
        self.lost -= 1
        if self.lost >= 0:
            raise requests.exceptions.ChunkedEncodingError("Connection broken: IncompleteRead")
        return response


class SlowTransport(FunctionTransport):
    """A network whose responses take longer than the timeout of the request."""

    timeouts: ClassVar[list[float]] = []

    def send(self, request, **options):
        self.timeouts.append(options["timeout"])
        raise requests.exceptions.ReadTimeout("Read timed out.")


class TokenPlugin(BaseAuthPlugin):
    """A login whose tokens are numbered."""

    number = 1

    def get_token(self, _session, **_):
        return f"token{self.number}"

    def invalidate(self):
        self.number += 1
        return True


def test_lost_responses_are_requested_again(pool, pauses):
    session = requests.Session()
    session.mount("http://cloud", FlakyTransport(GeneratedCloud().answer))
    adapter = Adapter(Session(auth=TokenPlugin(), session=session), endpoint_override=URL)
    reader = ApiReader(adapter, "compute", pool)
    assert len(reader.get("/os-services", version=(2, 100)).document["services"]) == 3
    assert len(pauses) == 3


def test_slow_service_is_an_error_after_all_attempts(pool, pauses):
    session = requests.Session()
    transport = SlowTransport(GeneratedCloud().answer)
    session.mount("http://cloud", transport)
    adapter = Adapter(Session(auth=TokenPlugin(), session=session), endpoint_override=URL)
    words = rf"compute.* no response|timed out.*\({MAX_ATTEMPTS} attempts\)"
    with pytest.raises(ServiceFailed, match=words):
        ApiReader(adapter, "compute", pool).get("/os-services", version=(2, 100))
    assert transport.timeouts == [TIMEOUT] * MAX_ATTEMPTS
    assert len(pauses) == MAX_ATTEMPTS - 1


def test_token_that_expires_is_replaced(pool):
    cloud = GeneratedCloud()

    def answer(request):
        if dict(request["headers"])["X-Auth-Token"] == "token1":
            return {"status": 401, "headers": [], "body": ""}
        return cloud.answer(request)

    session = requests.Session()
    session.mount("http://cloud", FunctionTransport(answer))
    reader = ApiReader(
        Adapter(Session(auth=TokenPlugin(), session=session), endpoint_override=URL),
        "compute",
        pool,
    )
    assert reader.get("/os-services", version=(2, 100)).status == 200


def test_every_page_is_read(pool):
    cloud = GeneratedCloud(servers=25, max_limit=10)
    servers = cloud.open_readers(pool)[1].read_pages(LISTING)
    assert [server["name"] for server in servers] == [f"s{number}" for number in range(25)]
    assert pool.calls == 3


def test_page_loop_is_an_error(pool):
    cloud = GeneratedCloud(servers=3)
    page = {"servers": [cloud.build_server(0)], "servers_links": [{"rel": "next", "href": "x"}]}
    cloud.faults[SERVERS] = lambda _: (200, page, {})
    with pytest.raises(ServiceFailed, match="the same page again to GET /servers/detail"):
        cloud.open_readers(pool)[1].read_pages(LISTING)
    assert pool.calls == 2


def test_list_is_read_again_if_the_marker_is_deleted(pool):
    cloud = GeneratedCloud(servers=25, max_limit=10)
    cloud.faults[SERVERS] = lambda number: (400, {}, {}) if number == 1 else None
    assert len(cloud.open_readers(pool)[1].read_pages(LISTING)) == 25
    assert pool.calls == 5


def test_marker_that_is_always_rejected_is_an_error(pool):
    cloud = GeneratedCloud(servers=25, max_limit=10)
    cloud.faults[SERVERS] = lambda number: (404, {}, {}) if number % 2 else None
    with pytest.raises(ServiceFailed, match="rejects the last item of a page"):
        cloud.open_readers(pool)[1].read_pages(LISTING)


def test_rate_limits_the_calls_of_all_threads():
    pauses = []
    with CallPool(4, 10, clock=lambda: 100.0, sleep=pauses.append) as pool:
        pool.run([lambda: pool.wait_for_turn("compute")] * 5)
    assert sorted(round(pause, 6) for pause in pauses) == [0.1, 0.2, 0.3, 0.4]


def test_progress_has_the_calls_sent_and_expected():
    steps = []
    with CallPool(2, None, lambda done, total: steps.append((done, total))) as pool:
        pool.run([lambda: pool.wait_for_turn("compute")] * 3)
    assert steps == [(1, 3), (2, 3), (3, 3)]


def test_failure_stops_the_calls_that_have_not_begun():
    begun = []

    def fail():
        raise ServiceFailed("it failed")

    with CallPool(1) as pool, pytest.raises(ServiceFailed, match="it failed"):
        pool.run([fail, *[lambda: begun.append(1)] * 100])
    assert len(begun) < 100


def test_interrupt_ends_pauses_and_drops_calls_that_have_not_begun(request):
    begun = []

    def pause():
        begun.append(1)
        pool.pause(3600)

    def send_interrupt():  # as Ctrl-C
        # A signal in the moment before the main thread blocks would not wake it.
        sleep(0.5)
        pthread_kill(main_thread().ident, SIGINT)

    # Shells let their background commands ignore SIGINT.
    previous = signal(SIGINT, default_int_handler)
    request.addfinalizer(lambda: signal(SIGINT, previous))
    with pytest.raises(KeyboardInterrupt), CallPool(2) as pool:
        pool.run([pause, send_interrupt, *[pause] * 100])
    assert len(begun) < 100


def test_closed_pool_sends_no_call():
    with CallPool(1) as pool:
        pass
    with pytest.raises(ServiceFailed, match="interrupted"):
        pool.wait_for_turn("compute")
