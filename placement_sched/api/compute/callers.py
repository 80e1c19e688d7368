"""What of the compute API depends on who asks, beyond whether they may ask at all."""

from placement_sched.api.call import Call
from placement_sched.errors import Forbidden

#: nova's name of the rule that says who is an administrator.
ADMINISTRATOR = "context_is_admin"


def may(call: Call, rule: str) -> bool:
    """Return whether the policy lets the caller do what ``rule`` guards to what is their own."""
    identity = call.identity
    target = {"project_id": identity.project_id, "user_id": identity.user_id}
    try:
        call.services.policy.check(rule, identity, target)
    except Forbidden:
        return False
    return True


def require(call: Call, rule: str, project_id: str | None) -> None:
    """Raise :class:`Forbidden` unless the caller may do ``rule`` to what belongs to a project."""
    call.services.policy.check(rule, call.identity, {"project_id": project_id or ""})


def confined_to(call: Call) -> str | None:
    """Return the project beyond which the caller sees nothing private; None for who sees all."""
    return None if may(call, ADMINISTRATOR) else call.identity.project_id
