"""GroupAntiAffinityFilter: ServerGroupAntiAffinityFilter by its name of Icehouse."""

from placement_sched.scheduler.filters.server_group_anti_affinity_filter import (
    ServerGroupAntiAffinityFilter,
)


class GroupAntiAffinityFilter(ServerGroupAntiAffinityFilter):
    """Is ``ServerGroupAntiAffinityFilter``, under the name that files of Icehouse know it by.

    In Icehouse that name stood for groups made by a hint alone, which server groups replaced.
    """
