"""Hardware: what flavors and images request of it, what hosts have, and whether the two fit.

Pure functions and values. Reading a request raises :class:`~placement_sched.errors.Invalid`, naming
the extra spec and the image property, where the two contradict each other or cannot be satisfied.
"""
