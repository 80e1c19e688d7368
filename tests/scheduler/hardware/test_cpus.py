"""How virtual CPUs share those of the host (nova 34 observed)."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.hardware import cpus
from tests.scheduler.hardware.asked import flavor_of, image_of

REFUSED = "refused"


def asked(function, key, by_flavor, by_image):
    """Return what the function makes of one key, or that it refuses naming both."""
    flavor = flavor_of({} if by_flavor is None else {f"hw:{key}": by_flavor})
    image = image_of({} if by_image is None else {f"hw_{key}": by_image})
    keys = [f"'hw:{key}'"] + [f"'hw_{key}'"] * (by_image is not None)
    try:
        return function(flavor, image)
    except Invalid as refused:
        return REFUSED if all(name in refused.detail for name in keys) else refused.detail


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "policy"),
    [
        (None, None, None),
        ("", None, None),
        (None, "dedicated", "dedicated"),
        (None, "mixed", "mixed"),
        (None, "shared", "shared"),
        ("", "shared", "shared"),
        ("dedicated", None, "dedicated"),
        ("dedicated", "shared", "dedicated"),
        ("dedicated", "mixed", "dedicated"),
        ("mixed", "shared", "mixed"),
        ("mixed", "mixed", "mixed"),
        ("mixed", "dedicated", REFUSED),
        ("shared", "shared", "shared"),
        ("shared", "mixed", REFUSED),
        ("shared", "dedicated", REFUSED),
        ("DEDICATED", None, REFUSED),
    ],
)
def test_cpu_policy_of_the_flavor_bounds_the_images(by_flavor, by_image, policy):
    assert asked(cpus.cpu_policy, "cpu_policy", by_flavor, by_image) == policy


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "policy"),
    [
        (None, None, None),
        (None, "isolate", "isolate"),
        ("prefer", "isolate", "prefer"),
        ("prefer", None, "prefer"),
        ("require", "require", "require"),
        ("isolate", None, "isolate"),
        ("isolate", "require", REFUSED),
        ("require", "prefer", REFUSED),
        ("", "prefer", REFUSED),
        ("", None, None),
        ("junk", None, REFUSED),
    ],
)
def test_cpu_thread_policy_differs_only_from_prefer(by_flavor, by_image, policy):
    assert asked(cpus.cpu_thread_policy, "cpu_thread_policy", by_flavor, by_image) == policy


@pytest.mark.parametrize(
    ("value", "policy"),
    [(None, None), ("", None), ("share", "share"), ("isolate", "isolate"), ("other", REFUSED)],
)
def test_emulator_threads_policy_is_the_flavors(value, policy):
    def function(flavor, _image):
        return cpus.emulator_threads_policy(flavor)

    assert asked(function, "emulator_threads_policy", value, None) == policy


@pytest.mark.parametrize(
    ("mask", "pinned"),
    [
        (None, None),
        ("", None),
        ("0-1", {0, 1}),
        ("^0", {1, 2, 3}),
        ("0-3", REFUSED),
        ("^0-3", REFUSED),
        ("4", REFUSED),
        ("0,4", REFUSED),
        ("junk", REFUSED),
    ],
)
def test_dedicated_cpus_are_some_and_not_all(mask, pinned):
    def function(flavor, _image):
        return cpus.dedicated_cpus(flavor)

    assert asked(function, "cpu_dedicated_mask", mask, None) == pinned


@pytest.mark.parametrize(
    ("extra_specs", "properties", "expected"),
    [
        ({}, {"hw_cpu_realtime_mask": "^0"}, None),
        ({"hw:cpu_realtime": "no", "hw:cpu_realtime_mask": "junk"}, {}, None),
        ({"hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0"}, {}, {1, 2, 3}),
        (
            {"hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0"},
            {"hw_cpu_realtime_mask": "1"},
            {1},
        ),
        ({"hw:cpu_realtime": "yes", "hw:emulator_threads_policy": "share"}, {}, {0, 1, 2, 3}),
    ],
)
def test_realtime_cpus_are_those_of_the_images_mask_first(extra_specs, properties, expected):
    assert cpus.realtime_cpus(flavor_of(extra_specs), image_of(properties)) == expected


@pytest.mark.parametrize(
    ("extra_specs", "properties", "named"),
    [
        ({}, {}, "'hw:emulator_threads_policy'"),
        ({}, {"hw_cpu_realtime_mask": "0-3"}, "'hw_cpu_realtime_mask'"),
        ({"hw:cpu_realtime_mask": "0-4"}, {}, "'hw:cpu_realtime_mask'"),
        ({"hw:cpu_realtime_mask": "^0-3"}, {}, "'hw:cpu_realtime_mask'"),
        ({"hw:cpu_realtime_mask": "x"}, {}, "'hw:cpu_realtime_mask'"),
        ({"hw:emulator_threads_policy": "x"}, {}, "'hw:emulator_threads_policy'"),
        (
            {"hw:emulator_threads_policy": "x", "hw:cpu_realtime_mask": "^0"},
            {},
            "'hw:emulator_threads_policy'",
        ),
    ],
)
def test_realtime_cpus_must_be_of_the_flavor_and_leave_the_emulator_room(
    extra_specs, properties, named
):
    flavor = flavor_of({"hw:cpu_realtime": "true", **extra_specs})
    with pytest.raises(Invalid, match=named):
        cpus.realtime_cpus(flavor, image_of(properties))
