"""An instance on a host, as plugins see it (nova's Instance attribute names)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from placement_sched.errors import Invalid
from placement_sched.model.flavor import Flavor
from placement_sched.model.image import Image
from placement_sched.model.instance import Instance
from placement_sched.model.spec import RequestSpec


@dataclass(frozen=True, kw_only=True)
class HostInstance:
    """One of ``host_state.instances``: a record, or an instance that this request put there.

    ``flavor`` is None where the record has none, or only the id of one that is gone.
    """

    uuid: str
    host: str | None = None
    node: str | None = None
    project_id: str | None = None
    user_id: str | None = None
    display_name: str | None = None
    vm_state: str | None = None
    task_state: str | None = None
    flavor: Flavor | None = None
    image: Image | Mapping[str, Any] | None = None

    @classmethod
    def recorded(cls, record: Instance) -> Self:
        """Return what a record tells."""
        described = record.flavor if record.flavor and record.flavor.keys() != {"id"} else None
        return cls(
            uuid=record.uuid,
            host=record.host,
            node=record.node,
            project_id=record.project_id,
            user_id=record.user_id,
            display_name=record.display_name,
            vm_state=record.vm_state,
            task_state=record.task_state,
            flavor=None if described is None else Flavor.from_document(described),
            image=record.image,
        )

    @classmethod
    def being_built(cls, uuid: str, spec: RequestSpec, host: str, node: str) -> Self:
        """Return the instance that a request puts on a host."""
        return cls(
            uuid=uuid,
            host=host,
            node=node,
            project_id=spec.project_id,
            user_id=spec.user_id,
            display_name=uuid,
            vm_state="building",
            flavor=spec.flavor,
            image=spec.image,
        )

    @property
    def vcpus(self) -> int:
        """Return the virtual CPUs of its flavor; 0 where that is not known, as of all sizes."""
        return self._flavor.vcpus

    @property
    def memory_mb(self) -> int:
        """Return the memory of its flavor."""
        return self._flavor.memory_mb

    @property
    def root_gb(self) -> int:
        """Return the root disk of its flavor."""
        return self._flavor.root_gb

    @property
    def ephemeral_gb(self) -> int:
        """Return the ephemeral disk of its flavor."""
        return self._flavor.ephemeral_gb

    def get_flavor(self) -> Flavor | None:
        """Return its flavor, as nova's instances are asked for it."""
        return self.flavor

    @property
    def _flavor(self) -> Flavor:
        return self.flavor or Flavor()

    def get(self, name: str, default: Any = None) -> Any:
        """Return the attribute of this name, as nova's instances, which can be read like dicts."""
        return getattr(self, name, default)

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, name)
        except AttributeError:
            raise KeyError(name) from None

    def __contains__(self, name: str) -> bool:
        return hasattr(self, name)

    @cached_property
    def image_meta(self) -> Image:
        """Return the image it was booted from, read when first asked for.

        Where one of its properties cannot be, it has none.
        """
        if self.image is None or isinstance(self.image, Image):
            return self.image or Image()
        try:
            return Image.from_document(self.image)
        except Invalid:
            return Image.from_document({**self.image, "properties": None})

    @property
    def image_ref(self) -> str | None:
        """Return the id of the image it was booted from."""
        return self.image_meta.id

    @property
    def instance_type_id(self) -> int | str | None:
        """Return the id of its flavor, by the name that plugins of former days know."""
        return None if self.flavor is None else self.flavor.id
