"""The two services, each asked in process: ours here, the peer in its own interpreter."""

import json
import os
import subprocess
from pathlib import Path
from typing import Protocol

from sqlalchemy import delete, select

from placement_sched.app import make_services, placement_app
from placement_sched.db.tables import allocations, consumers
from placement_sched.db.transaction import Database
from tests.conftest import make_settings
from tests.differential.exchange import Reply, Request, reply_from
from tests.differential.peer.wsgi_call import call

ROOT = Path(__file__).resolve().parents[2]
SERVE = Path(__file__).parent / "peer" / "serve.py"
#: The interpreter of the virtual environment that has openstack-placement.
PEER_PYTHON = Path(
    os.environ.get("PLACEMENT_SCHED_PEER_PYTHON", ROOT / ".venv-peer" / "bin" / "python")
)


class Side(Protocol):
    """A service that answers requests."""

    def ask(self, request: Request) -> Reply: ...


class Ours:
    """placement_sched on a database."""

    def __init__(self, url: str) -> None:
        settings = make_settings(url, placement_database__sync_on_startup=True)
        self._services = make_services(settings)
        self._application = placement_app(self._services)

    def ask(self, request: Request) -> Reply:
        return reply_from(call(self._application, request.wire()))

    def close(self) -> None:
        self._services.database.dispose()


class Peer:
    """openstack-placement on a database of its own."""

    def __init__(self, url: str, python: Path = PEER_PYTHON) -> None:
        self._process = subprocess.Popen(
            [python, SERVE, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if self._process.stdout.readline() != "ready\n":
            raise RuntimeError(f"openstack-placement did not start on {url}")
        self._database = Database(make_settings(url))

    def forget_left_behind(self) -> int:
        """Remove the consumers that hold nothing; return how many there were.

        Nothing shows such a consumer but the conflict of a claim that takes it for new.
        """
        holding = select(allocations.c.consumer_id)
        statement = delete(consumers).where(consumers.c.uuid.not_in(holding))
        return self._database.write(lambda connection: connection.execute(statement).rowcount)

    def ask(self, request: Request) -> Reply:
        self._process.stdin.write(json.dumps(request.wire()) + "\n")
        self._process.stdin.flush()
        return reply_from(json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(timeout=10)
        self._process.stdout.close()
        self._database.dispose()
