"""Routes of resource providers (Placement API reference, "Resource providers")."""

from typing import Any
from uuid import uuid4

import orjson

from placement_sched.api.call import Answer, Call
from placement_sched.api.placement import subject
from placement_sched.api.placement.last_modified import latest_change
from placement_sched.api.placement.microversions import (
    ALLOCATIONS_LINK,
    NESTED_PROVIDERS,
    POST_PROVIDER_BODY,
    PROVIDER_AGGREGATES,
    REPARENTING,
    TRAITS,
)
from placement_sched.api.placement.params import (
    normal_uuid,
    parse_member_of,
    parse_resources,
    parse_traits,
)
from placement_sched.api.placement.schemas import resource_providers as schemas
from placement_sched.api.route import Route
from placement_sched.db.connection import Connection
from placement_sched.model.provider import Provider
from placement_sched.store import provider_search, provider_trees, resource_providers
from placement_sched.store.provider_search import ProviderQuery

#: What an answer links to, in this order, and since when.
_LINKS = (
    ("inventories", None),
    ("usages", None),
    ("aggregates", PROVIDER_AGGREGATES),
    ("traits", TRAITS),
    ("allocations", ALLOCATIONS_LINK),
)
_MARK = "{uuid}"


def index(call: Call) -> Answer:
    """Return the providers that the query asks for."""
    with call.services.database.read() as connection:
        found = provider_search.search(connection, _query(call))
    links = _links(call)
    return Answer(
        body={"resource_providers": [_shown(call, provider, links) for provider in found]},
        last_modified=latest_change(call, found),
    )


def _query(call: Call) -> ProviderQuery:
    resources = call.value("resources")
    return ProviderQuery(
        name=call.value("name"),
        uuid=call.value("uuid"),
        in_tree=call.value("in_tree"),
        # Of several faults the one told is the one that OpenStack placement tells.
        aggregates=parse_member_of(call.values("member_of"), call.version),
        traits=parse_traits(call.values("required"), call.version),
        resources={} if resources is None else parse_resources(resources),
    )


def create(call: Call) -> Answer:
    """Create a provider; with a parent it joins that one's tree."""
    uuid = normal_uuid(call.body["uuid"]) if "uuid" in call.body else str(uuid4())
    parent = call.body.get("parent_provider_uuid")

    def work(connection: Connection) -> Provider:
        return provider_trees.create(
            connection, uuid=uuid, name=call.body["name"], parent_uuid=parent, now=call.now()
        )

    provider = call.services.database.write(work)
    headers = {"Location": f"{call.url}{_path(provider)}"}
    if not call.version.has(POST_PROVIDER_BODY):
        return Answer(status=201, headers=headers)
    return Answer(
        body=shown(call, provider),
        headers=headers,
        last_modified=latest_change(call, [provider]),
    )


def show(call: Call, uuid: str) -> Answer:
    """Return one provider."""
    with call.services.database.read() as connection:
        provider = resource_providers.by_uuid(connection, uuid)
    return Answer(body=shown(call, provider), last_modified=latest_change(call, [provider]))


def update(call: Call, uuid: str) -> Answer:
    """Rename a provider and, where the version knows parents, move it to another parent."""

    def work(connection: Connection) -> Provider:
        if "parent_provider_uuid" in call.body:
            provider_trees.move(
                connection,
                uuid,
                call.body["parent_provider_uuid"],
                anywhere=call.version.has(REPARENTING),
                now=call.now(),
            )
        provider = resource_providers.locked_by_uuid(connection, uuid)
        resource_providers.rename(connection, provider, name=call.body["name"], now=call.now())
        return resource_providers.by_uuid(connection, uuid)

    provider = call.services.database.write(work)
    return Answer(body=shown(call, provider), last_modified=latest_change(call, [provider]))


def remove(call: Call, uuid: str) -> Answer:
    """Delete a provider with its inventories, traits and memberships."""

    def work(connection: Connection) -> None:
        provider_trees.remove(connection, uuid)

    call.services.database.write(work)
    return Answer(status=204)


def shown(call: Call, provider: Provider) -> dict[str, Any]:
    """Return a provider as the request's version shows it."""
    return _shown(call, provider, _links(call))


def _links(call: Call) -> str:
    """Return the links of any provider in JSON, with a mark where its uuid belongs."""
    path = f"{call.base}/resource_providers/{_MARK}"
    links = [{"rel": "self", "href": path}]
    links += [
        {"rel": rel, "href": f"{path}/{rel}"}
        for rel, since in _LINKS
        if since is None or call.version.has(since)
    ]
    return orjson.dumps(links).decode()


def _shown(call: Call, provider: Provider, links: str) -> dict[str, Any]:
    document: dict[str, Any] = {
        "uuid": provider.uuid,
        "name": provider.name,
        "generation": provider.generation,
        # Ready-made, since they are most of a long list.
        "links": orjson.Fragment(links.replace(_MARK, provider.uuid)),
    }
    if call.version.has(NESTED_PROVIDERS):
        document["parent_provider_uuid"] = provider.parent_uuid
        document["root_provider_uuid"] = provider.root_uuid
    return document


def _path(provider: Provider) -> str:
    return f"/resource_providers/{provider.uuid}"


_ALL = "/resource_providers"
_ONE = "/resource_providers/<uuid>"
_POLICY = "placement:resource_providers"

ROUTES = (
    Route(
        method="GET",
        path=_ALL,
        handler=index,
        policy=f"{_POLICY}:list",
        query=schemas.LIST,
        statuses=(200, 400, 401, 403, 406),
        answer=schemas.LIST_ANSWER,
    ),
    Route(
        method="POST",
        path=_ALL,
        handler=create,
        policy=f"{_POLICY}:create",
        until=POST_PROVIDER_BODY.before,
        body=schemas.POST,
        statuses=(201, 400, 401, 403, 409, 415),
        located=(201,),
    ),
    Route(
        method="POST",
        path=_ALL,
        handler=create,
        policy=f"{_POLICY}:create",
        since=POST_PROVIDER_BODY,
        body=schemas.POST,
        statuses=(200, 400, 401, 403, 409, 415),
        located=(200,),
        answer=schemas.ANSWER,
    ),
    Route(
        method="GET",
        path=_ONE,
        handler=show,
        policy=f"{_POLICY}:show",
        statuses=(200, 401, 403, 404, 406),
        answer=schemas.ANSWER,
    ),
    Route(
        method="PUT",
        path=_ONE,
        handler=update,
        policy=f"{_POLICY}:update",
        body=schemas.PUT,
        subject=subject.provider,
        statuses=(200, 400, 401, 403, 404, 409, 415),
        answer=schemas.ANSWER,
    ),
    Route(
        method="DELETE",
        path=_ONE,
        handler=remove,
        policy=f"{_POLICY}:delete",
        statuses=(204, 401, 403, 404, 409),
    ),
)
