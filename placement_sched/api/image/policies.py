"""Who may do what with the image API."""

from placement_sched.api.policies import Rule

RULES: tuple[Rule, ...] = ()
