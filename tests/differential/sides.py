# SPDX-License-Identifier: Apache-2.0
"""Both services: ours in this process, the peer in another interpreter."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import delete, select

from placement_sched.app import create_placement_app, make_services
from placement_sched.db.tables import allocations, consumers
from placement_sched.db.transaction import Database
from tests.conftest import make_settings
from tests.differential.comparison import PEER_PYTHON
from tests.differential.exchange import Reply, Request, build_reply_from_json
from tests.differential.lines import JsonLineProgram
from tests.differential.peer.wsgi_call import call_application

SERVE_PROGRAM = Path(__file__).parent / "peer" / "serve.py"


class Side(Protocol):
    """A service that answers requests."""

    def send_request(self, request: Request) -> Reply: ...


class OwnPlacement:
    """placement_sched on a database."""

    def __init__(self, url: str, **options: object) -> None:
        settings = make_settings(url, **{"placement_database__sync_on_startup": True, **options})
        self._services = make_services(settings)
        self._application = create_placement_app(self._services)

    @property
    def has_short_ratios(self) -> bool:
        return self._services.database.url.get_backend_name() == "mysql"

    def send_request(self, request: Request) -> Reply:
        return build_reply_from_json(call_application(self._application, request.as_wsgi_request()))

    def delete_consumers_without_allocations(self) -> int:
        return _delete_empty_consumers(self._services.database)

    def close(self) -> None:
        self._services.database.dispose()


class OpenStackPlacementPeer:
    """openstack-placement on a database, whose URL may have another driver for it."""

    def __init__(self, url: str, python: Path = PEER_PYTHON, peer: str | None = None) -> None:
        self._program = JsonLineProgram(python, SERVE_PROGRAM, peer or url)
        self._database = Database(make_settings(url))

    def delete_consumers_without_allocations(self) -> int:
        return _delete_empty_consumers(self._database)

    def send_request(self, request: Request) -> Reply:
        return build_reply_from_json(self.send_wsgi_request(request.as_wsgi_request()))

    def send_wsgi_request(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        response: Mapping[str, Any] = self._program.exchange_json_line(request)
        return response

    def close(self) -> None:
        self._program.close()
        self._database.dispose()


def _delete_empty_consumers(database: Database) -> int:
    holding = select(allocations.c.consumer_id)
    statement = delete(consumers).where(consumers.c.uuid.not_in(holding))
    return database.write(lambda connection: connection.execute(statement).rowcount)
