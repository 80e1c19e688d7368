"""Routes of traits (Placement API reference, "Traits" and "Resource provider traits")."""

import re
from collections.abc import Iterable
from typing import Any

from placement_sched.api.call import Answer, Call
from placement_sched.api.placement import phrases
from placement_sched.api.placement.last_modified import latest_change
from placement_sched.api.placement.microversions import TRAITS
from placement_sched.api.placement.schemas import traits as schemas
from placement_sched.api.route import Route
from placement_sched.db.connection import Connection
from placement_sched.errors import Invalid
from placement_sched.model.trait import CUSTOM_PREFIX, Trait
from placement_sched.store import resource_providers, traits

_CUSTOM = re.compile(f"{CUSTOM_PREFIX}[A-Z0-9_]+")
_MAX_LENGTH = 255


def index(call: Call) -> Answer:
    """Return the names of traits: all, those of a list, those that begin so, those in use."""
    with call.services.database.read() as connection:
        found = traits.search(connection, **_named(call), associated=_associated(call))
    names = [trait.name for trait in found]
    return Answer(body={"traits": names}, last_modified=latest_change(call, found))


def _named(call: Call) -> dict[str, Any]:
    text = call.value("name")
    if text is None:
        return {}
    if text.startswith("in:"):
        return {"names": text.removeprefix("in:").split(",")}
    if text.startswith("startswith:"):
        return {"prefix": text.removeprefix("startswith:")}
    raise Invalid(
        "Badly formatted name parameter. Expected name query string parameter in form: "
        f'?name=[in|startswith]:[name1,name2|prefix]. Got: "{text}", which begins with neither.'
    )


def _associated(call: Call) -> bool | None:
    text = call.value("associated")
    if text is None:
        return None
    if text.lower() not in {"true", "false"}:
        raise Invalid('The query parameter "associated" only accepts "true" or "false"')
    return text.lower() == "true"


def show(call: Call, name: str) -> Answer:
    """Tell that a trait exists."""
    with call.services.database.read() as connection:
        trait = traits.by_name(connection, name)
    return Answer(status=204, last_modified=latest_change(call, [trait]))


def ensure(call: Call, name: str) -> Answer:
    """Create a custom trait, or find it there already."""
    if not _CUSTOM.fullmatch(name) or len(name) > _MAX_LENGTH:
        raise Invalid(
            "The trait is invalid. A valid trait must be no longer than "
            f'{_MAX_LENGTH} characters, start with the prefix "{CUSTOM_PREFIX}" and use following '
            f'characters: "A"-"Z", "0"-"9" and "_". Got {len(name)} characters: {name}'
        )

    def work(connection: Connection) -> tuple[bool, Trait]:
        created = traits.ensure(connection, name, call.now())
        return created, traits.by_name(connection, name)

    created, trait = call.services.database.write(work)
    return Answer(
        status=201 if created else 204,
        headers={"Location": f"{call.url}/traits/{name}"},
        last_modified=latest_change(call, [trait]),
    )


def remove(call: Call, name: str) -> Answer:
    """Delete a custom trait that no provider has."""

    def work(connection: Connection) -> None:
        trait = traits.by_name(connection, name)
        if not name.startswith(CUSTOM_PREFIX):
            raise Invalid(f"Cannot delete standard trait {name}.")
        traits.remove(connection, trait)

    call.services.database.write(work)
    return Answer(status=204)


def of_provider(call: Call, uuid: str) -> Answer:
    """Return the traits of a provider."""
    with call.services.database.read() as connection:
        found = traits.carried_by(connection, uuid)
    return _answer(call, found.traits, found.generation)


def replace(call: Call, uuid: str) -> Answer:
    """Make these the only traits of a provider."""

    def work(connection: Connection) -> Answer:
        given: int = call.body["resource_provider_generation"]
        provider_id, generation, held = traits.carried_by(connection, uuid)
        resource_providers.refuse_other_generation(uuid, generation, given)
        wanted = _of_names(connection, call.body["traits"], held)
        if wanted != held:
            resource_providers.bump_generation_from(
                connection, provider_id, uuid, generation, call.now()
            )
            traits.replace(connection, provider_id, _ids(held), _ids(wanted), call.now())
            generation += 1
        return _answer(call, wanted, generation)

    with phrases.generation_changed():
        return call.services.database.write(work)


def clear(call: Call, uuid: str) -> Answer:
    """Take all traits from a provider."""

    def work(connection: Connection) -> None:
        provider = resource_providers.locked_by_uuid(connection, uuid)
        held = traits.of_provider(connection, provider.id)
        if traits.replace(connection, provider.id, _ids(held), (), call.now()):
            resource_providers.bump_generations(connection, [provider.id], call.now())

    call.services.database.write(work)
    return Answer(status=204)


def _of_names(
    connection: Connection, names: Iterable[str], held: Iterable[Trait]
) -> tuple[Trait, ...]:
    """Return the traits of these names, by id; those that are held need no looking up.

    Raises :class:`Invalid` where there is none of a name.
    """
    names = set(names)
    known = [trait for trait in held if trait.name in names]
    unknown = names.difference(trait.name for trait in known)
    found = traits.by_names(connection, unknown) if unknown else ()
    if missing := sorted(unknown.difference(trait.name for trait in found)):
        raise Invalid(f"No such trait {', '.join(missing)}")
    return tuple(sorted([*known, *found], key=lambda trait: trait.id))


def _ids(found: Iterable[Trait]) -> list[int]:
    return [trait.id for trait in found]


def _answer(call: Call, found: tuple[Trait, ...], generation: int) -> Answer:
    return Answer(
        body={
            "traits": [trait.name for trait in found],
            "resource_provider_generation": generation,
        },
        last_modified=latest_change(call, found),
    )


_ALL = "/traits"
_ONE = "/traits/<name>"
_ON_PROVIDER = "/resource_providers/<uuid>/traits"

ROUTES = (
    Route(
        method="GET",
        path=_ALL,
        handler=index,
        policy="placement:traits:list",
        since=TRAITS,
        query=schemas.LIST,
        statuses=(200, 400, 401, 403, 404, 406),
        answer=schemas.LIST_ANSWER,
    ),
    Route(
        method="GET",
        path=_ONE,
        handler=show,
        policy="placement:traits:show",
        since=TRAITS,
        statuses=(204, 401, 403, 404),
        dated=(204,),
    ),
    Route(
        method="PUT",
        path=_ONE,
        handler=ensure,
        policy="placement:traits:update",
        since=TRAITS,
        statuses=(201, 204, 400, 401, 403, 404),
        located=(201, 204),
        dated=(201, 204),
    ),
    Route(
        method="DELETE",
        path=_ONE,
        handler=remove,
        policy="placement:traits:delete",
        since=TRAITS,
        statuses=(204, 400, 401, 403, 404, 409),
    ),
    Route(
        method="GET",
        path=_ON_PROVIDER,
        handler=of_provider,
        policy="placement:resource_providers:traits:list",
        since=TRAITS,
        statuses=(200, 401, 403, 404, 406),
        answer=schemas.ON_PROVIDER_ANSWER,
    ),
    Route(
        method="PUT",
        path=_ON_PROVIDER,
        handler=replace,
        policy="placement:resource_providers:traits:update",
        since=TRAITS,
        body=schemas.PUT_ON_PROVIDER,
        statuses=(200, 400, 401, 403, 404, 409, 415),
        answer=schemas.ON_PROVIDER_ANSWER,
    ),
    Route(
        method="DELETE",
        path=_ON_PROVIDER,
        handler=clear,
        policy="placement:resource_providers:traits:delete",
        since=TRAITS,
        statuses=(204, 401, 403, 404, 409),
    ),
)
