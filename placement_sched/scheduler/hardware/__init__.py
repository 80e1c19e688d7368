"""What a flavor's extra specs and an image's properties, read together, ask of the hardware.

Pure functions of the two. Each raises :class:`~placement_sched.errors.Invalid`, naming the extra
spec and the property, where the two contradict each other or say what cannot be.
"""
