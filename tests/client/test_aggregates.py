"""Host aggregates through the unmodified ``openstack`` client."""


def test_aggregate_is_made_tagged_shown_listed_and_deleted(openstack):
    made = openstack.json("aggregate", "create", "--zone", "z1", "--property", "ssd=true", "life")
    assert (made["name"], made["availability_zone"]) == ("life", "z1")
    openstack("aggregate", "set", "--zone", "z2", "--property", "gpu=2", "life")
    openstack("aggregate", "unset", "--property", "ssd", "life")
    shown = openstack.json("aggregate", "show", "life")
    assert (shown["availability_zone"], shown["properties"]) == ("z2", {"gpu": "2"})
    assert len(shown["uuid"]) == 36
    openstack("aggregate", "set", "--name", "renamed", "life")
    listed = openstack.json("aggregate", "list", "--long")
    (row,) = (row for row in listed if row["Name"] == "renamed")
    assert (row["Availability Zone"], row["Properties"]) == ("z2", {"gpu": "2"})
    assert "already exists" in openstack.refusal("aggregate", "create", "renamed")
    openstack("aggregate", "delete", "renamed")
    names = [row["Name"] for row in openstack.json("aggregate", "list")]
    assert not {"life", "renamed"} & set(names)


def test_provider_aggregates_follow_the_hosts(openstack, hosts):
    list_aggregates = (
        "--os-placement-api-version",
        "1.19",
        "resource",
        "provider",
        "aggregate",
        "list",
        hosts["cn1"],
    )
    openstack("aggregate", "create", "follow")
    added = openstack.json("aggregate", "add", "host", "follow", "cn1")
    assert added["hosts"] == ["cn1"]
    uuid = openstack.json("aggregate", "show", "follow")["uuid"]
    assert openstack.json(*list_aggregates) == [{"uuid": uuid}]
    unknown = openstack.refusal("aggregate", "add", "host", "follow", "nope")
    assert "Compute host nope could not be found" in unknown
    assert "not empty" in openstack.refusal("aggregate", "delete", "follow")
    removed = openstack.json("aggregate", "remove", "host", "follow", "cn1")
    assert removed["hosts"] == []
    assert openstack.json(*list_aggregates) == []
