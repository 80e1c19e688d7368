"""What plugins brought from nova ask of every object of a request."""


class NovaObject:
    """The base of values whose attributes are asked for by name, as nova's objects are."""

    __slots__ = ()

    def obj_attr_is_set(self, name: str) -> bool:
        """Return whether there is something under this name."""
        return getattr(self, name, None) is not None

    def __contains__(self, name: str) -> bool:
        return self.obj_attr_is_set(name)
