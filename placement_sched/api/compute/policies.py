"""Who may do what with the compute API: rule names and defaults are nova's."""

from placement_sched.api.policies import Rule

_ADMIN = "role:admin"
_AGGREGATES = "os_compute_api:os-aggregates"


def _rule(name: str, description: str) -> Rule:
    return Rule(name, _ADMIN, description)


RULES = (
    _rule(f"{_AGGREGATES}:index", "List host aggregates."),
    _rule(f"{_AGGREGATES}:create", "Create a host aggregate."),
    _rule(f"{_AGGREGATES}:show", "Show a host aggregate."),
    _rule(f"{_AGGREGATES}:update", "Change a host aggregate's name or availability zone."),
    _rule(f"{_AGGREGATES}:delete", "Delete a host aggregate."),
    _rule(f"{_AGGREGATES}:add_host", "Add a host to a host aggregate."),
    _rule(f"{_AGGREGATES}:remove_host", "Remove a host from a host aggregate."),
    _rule(f"{_AGGREGATES}:set_metadata", "Change a host aggregate's metadata."),
    _rule("compute:aggregates:images", "Ask that images be cached on a host aggregate's hosts."),
)
