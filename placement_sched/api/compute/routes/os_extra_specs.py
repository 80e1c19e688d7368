"""Routes of the extra specs of flavors."""

from collections.abc import Mapping

from placement_sched.api.call import Answer, Call
from placement_sched.api.compute.callers import confined_to
from placement_sched.api.compute.microversions import EXTRA_SPEC_VALIDATION
from placement_sched.api.compute.schemas import os_extra_specs as schemas
from placement_sched.api.route import Route
from placement_sched.errors import Invalid
from placement_sched.operations import flavors
from placement_sched.scheduler import extra_specs


def index(call: Call, flavor_id: str) -> Answer:
    """Return all extra specs of a flavor."""
    with call.services.database.read() as connection:
        found = flavors.get(connection, flavor_id, confined_to(call))
    return Answer(body={"extra_specs": dict(found.extra_specs)})


def create(call: Call, flavor_id: str) -> Answer:
    """Set extra specs of a flavor; those not named stay."""
    _set(call, flavor_id, call.body["extra_specs"])
    return Answer(body=call.body)


def show(call: Call, flavor_id: str, key: str) -> Answer:
    """Return one extra spec of a flavor."""
    with call.services.database.read() as connection:
        found = flavors.get(connection, flavor_id, confined_to(call))
    return Answer(body={key: flavors.extra_spec(found, key)})


def update(call: Call, flavor_id: str, key: str) -> Answer:
    """Set one extra spec of a flavor."""
    if key not in call.body:
        raise Invalid("Request body and URI mismatch")
    _set(call, flavor_id, call.body)
    return Answer(body=call.body)


def delete(call: Call, flavor_id: str, key: str) -> Answer:
    """Delete one extra spec of a flavor."""
    call.services.database.write(
        lambda connection: flavors.remove_extra_spec(connection, flavor_id, key)
    )
    return Answer()


def _set(call: Call, flavor_id: str, given: Mapping[str, str | float]) -> None:
    """Set extra specs that can be, each of them or none; numbers are kept as text."""
    changes = {key: str(value) for key, value in given.items()}
    if call.version.has(EXTRA_SPEC_VALIDATION):
        for key, value in changes.items():
            extra_specs.check(key, value)
    call.services.database.write(
        lambda connection: flavors.set_extra_specs(connection, flavor_id, changes, call.now())
    )


_POLICY = "os_compute_api:os-flavor-extra-specs"
_ALL = "/v2.1/flavors/<flavor_id>/os-extra_specs"
_ONE = f"{_ALL}/<key>"

ROUTES = (
    Route(
        method="GET",
        path=_ALL,
        handler=index,
        policy=f"{_POLICY}:index",
        statuses=(200, 401, 403, 404),
    ),
    Route(
        method="POST",
        path=_ALL,
        handler=create,
        policy=f"{_POLICY}:create",
        body=schemas.CREATE,
        statuses=(200, 400, 401, 403, 404),
    ),
    Route(
        method="GET",
        path=_ONE,
        handler=show,
        policy=f"{_POLICY}:show",
        statuses=(200, 401, 403, 404),
    ),
    Route(
        method="PUT",
        path=_ONE,
        handler=update,
        policy=f"{_POLICY}:update",
        body=schemas.UPDATE,
        statuses=(200, 400, 401, 403, 404),
    ),
    Route(
        method="DELETE",
        path=_ONE,
        handler=delete,
        policy=f"{_POLICY}:delete",
        statuses=(200, 401, 403, 404),
    ),
)
