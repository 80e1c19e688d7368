"""Hints of requests that not everybody may give."""

from placement_sched.api.call import Call
from placement_sched.model.host_aggregate import POLICY_KEY


def check(call: Call) -> None:
    """Raise :class:`Forbidden` where a policy is named by who may not name one."""
    given = call.body["request_spec"].get("scheduler_hints") or {}
    if POLICY_KEY in given or call.body.get("policy"):
        call.check("scheduler:policies:hint")
