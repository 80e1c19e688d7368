"""Pages of images: in whatever order, each image is on exactly one of them."""

import pytest

from placement_sched.model.image import StoredImage, Viewer
from placement_sched.store import images
from placement_sched.store.images import SORT_KEYS, ImageSearch, search
from tests.clouds import uuid_of
from tests.exploring import Dice
from tests.hosts import NOW

EVERYBODY = Viewer(project_id="admin", is_admin=True)


@pytest.fixture
def cloud(database):
    """Thirty images, among them many that are alike."""
    rng = Dice.of(11)

    def fill(connection):
        for number in range(30):
            images.add(
                connection,
                StoredImage(
                    uuid=uuid_of(f"image-{number}"),
                    name=rng.choice([None, "", "a", "A", "b", "ä"]),
                    size=rng.choice([None, 0, 5_000_000_000]),
                    disk_format=rng.choice([None, "raw", "qcow2"]),
                    container_format=rng.choice([None, "bare"]),
                    created_at=NOW.replace(minute=rng.randrange(3)),
                    updated_at=NOW.replace(minute=rng.randrange(3)),
                ),
            )

    database.write(fill)
    return database


@pytest.mark.property
@pytest.mark.parametrize("seed", range(8))
def test_every_image_is_on_one_page(cloud, seed):
    rng = Dice.of(seed)
    keys = rng.sample(SORT_KEYS, rng.randint(1, 3))
    order = {key: rng.random() < 0.5 for key in keys}
    order.setdefault("id", rng.random() < 0.5)
    question = {"viewer": EVERYBODY, "order": tuple(order.items())}
    with cloud.read() as connection:
        whole = search(connection, ImageSearch(**question))
        found, marker = [], None
        while page := search(connection, ImageSearch(**question, limit=7, marker=marker)):
            found += page
            marker = page[-1].uuid
    assert found == list(whole)
    assert len({each.uuid for each in whole}) == 30


def test_order_is_as_python_has_it_where_databases_agree(cloud):
    """Of texts beyond one case and alphabet each database has its own opinion."""
    question = ImageSearch(viewer=EVERYBODY, order=(("size", True), ("created_at", False)))
    with cloud.read() as connection:
        found = search(connection, question)
    keys = [(-(-1 if each.size is None else each.size), each.created_at) for each in found]
    assert keys == sorted(keys)
