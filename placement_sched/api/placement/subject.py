"""What a path names, looked up where a request is otherwise at fault."""

from placement_sched.api.services import Services
from placement_sched.store import resource_providers


def provider(services: Services, uuid: str, **_rest: str) -> None:
    """Raise :class:`NotFound` where there is no such resource provider."""
    with services.database.read() as connection:
        resource_providers.by_uuid(connection, uuid)
