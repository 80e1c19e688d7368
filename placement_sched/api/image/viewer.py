"""Whose images a request is about: what the policy rules make of the caller."""

from placement_sched.api.call import Call
from placement_sched.errors import Forbidden
from placement_sched.model.stored_image import COMMUNITY, PUBLIC, Viewer

_GIVING = {PUBLIC: "publicize_image", COMMUNITY: "communitize_image"}


def viewer_of(call: Call) -> Viewer:
    """Return the caller as the rules of images know one."""
    return Viewer(
        project_id=call.identity.project_id,
        is_admin=_may(call, "context_is_admin"),
        may_give=frozenset(visibility for visibility, rule in _GIVING.items() if _may(call, rule)),
    )


def _may(call: Call, rule: str) -> bool:
    identity = call.identity
    target = {"project_id": identity.project_id, "owner": identity.project_id}
    try:
        call.services.policy.check(rule, identity, target)
    except Forbidden:
        return False
    return True
