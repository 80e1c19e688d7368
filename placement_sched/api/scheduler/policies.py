"""Who may do what with the scheduler API."""

from placement_sched.api.policies import Rule

_ADMIN_OR_SERVICE = "role:admin or role:service"

RULES = (
    Rule("scheduler:root:show", "@", "See what the scheduler API serves."),
    *(
        Rule(name, _ADMIN_OR_SERVICE, description)
        for name, description in (
            ("scheduler:compute_nodes:report", "Report what compute nodes have."),
            ("scheduler:compute_nodes:list", "List compute nodes."),
            ("scheduler:compute_nodes:show", "Show a compute node."),
            ("scheduler:compute_nodes:delete", "Delete a compute node and its provider."),
            ("scheduler:instances:record", "Record where an instance is."),
            ("scheduler:instances:list", "List recorded instances."),
            ("scheduler:instances:show", "Show a recorded instance."),
            ("scheduler:instances:delete", "Forget an instance and free its allocations."),
            ("scheduler:select_destinations", "Place instances."),
            ("scheduler:decisions:list", "List decisions."),
            ("scheduler:decisions:show", "Show a decision: what was asked, and how it went."),
            ("scheduler:explain", "Ask where instances would be placed, and why."),
            ("scheduler:policies:list", "List the policies that requests may come under."),
            ("scheduler:policies:show", "Show a policy: its options, and where each is from."),
            ("scheduler:policies:hint", "Name a policy by the scheduler hint sched_policy."),
        )
    ),
)
