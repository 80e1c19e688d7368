"""Filters and weighers as people published them for nova, era by era; import lines changed alone.

Where they said ``from nova.scheduler import filters`` they say ``from placement_sched.scheduler
import filters``, and so on; ``oslo.config`` and nova's own log became ``oslo_config`` and
``oslo_log``, as nova itself had it later.
"""
