# SPDX-License-Identifier: Apache-2.0
"""How many SQL statements a request takes of us, counted in this process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from both_servers import Reply, Request
from sqlalchemy import event
from werkzeug.test import Client

from placement_sched.app import create_app
from placement_sched.config.conf import read_files
from placement_sched.config.settings import Settings
from placement_sched.scheduler.plugins import make_full_conf

Answerer = Callable[[Request], tuple[Reply, int]]
Counter = Callable[[Request], int]


@contextmanager
def answerer(url: str) -> Iterator[Answerer]:
    """Give a function that returns the answer to a request, and the SQL statements it took."""
    conf = read_files(make_full_conf())
    conf.set_override("connection", url, "placement_database")
    application = create_app(Settings.from_conf(conf))
    client, database = Client(application), application.services.database
    seen: list[str] = []
    for engine in (database.reader, database.writer):
        event.listen(engine, "before_cursor_execute", lambda *given: seen.append(given[2]))

    def answer(request: Request) -> tuple[Reply, int]:
        seen.clear()
        response = client.open(
            f"/placement{request.path}",
            method=request.method,
            json=request.body,
            headers=request.headers,
        )
        return Reply(response.status_code, response.data), len(seen)

    try:
        yield answer
    finally:
        application.close()


@contextmanager
def counter(url: str) -> Iterator[Counter]:
    """Give a function that counts the SQL statements of a request made again."""
    with answerer(url) as answer:

        def count(request: Request) -> int:
            answer(request)
            return answer(request)[1]

        yield count
