# SPDX-License-Identifier: Apache-2.0
"""``select`` and ``explain``, on the database and with the address of a server."""

import json
from io import StringIO

import pytest

from tests.cli.conftest import copy_filled_database
from tests.conftest import delete_test_rows
from tests.support.clouds import uuid_of
from tests.support.loopback import serve_application
from tests.support.scheduling import make_report

pytestmark = pytest.mark.slow

SIZE_OPTIONS = ("--vcpus", "2", "--ram", "4096", "--disk", "20")


@pytest.fixture(scope="module")
def sqlite_template(sqlite_template, tmp_path_factory):
    """Three hosts of 8 CPUs."""
    reports = [make_report(f"cn{n}", vcpus=8, memory_mb=8192 * n, local_gb=100) for n in (1, 2, 3)]
    return copy_filled_database(
        sqlite_template,
        tmp_path_factory.mktemp("cloud"),
        lambda app: app.post_json("/scheduler/v1/compute_nodes", reports),
    )


@pytest.fixture
def cloud(sqlite_app):
    return sqlite_app


def read_allocations(cloud, instance: str) -> dict:
    return cloud.get(f"/placement/allocations/{instance}").json["allocations"]


def test_explain_and_select_report_a_database_without_hosts(run_cli, sqlite_url):
    delete_test_rows(sqlite_url)
    status, printed, _ = run_cli("explain", *SIZE_OPTIONS)
    assert (status, f"{sqlite_url} has no resource provider" in printed) == (0, True)
    status, _, error = run_cli("select", *SIZE_OPTIONS)
    assert (status, error.endswith(f" in {sqlite_url}\n")) == (1, True)


def test_select_claims_resources_for_each_instance(run_cli, cloud):
    status, printed, _ = run_cli("select", *SIZE_OPTIONS, "--count", "2", "--format", "json")
    assert status == 0
    document = json.loads(printed)
    assert len(document["selections"]) == 2
    decision = cloud.get("/scheduler/v1/instances").json
    claimed = [read_allocations(cloud, entry["uuid"]) for entry in decision["instances"]]
    assert len(claimed) == 2
    for held in claimed:
        ((_, part),) = held.items()
        assert part["resources"] == {"VCPU": 2, "MEMORY_MB": 4096, "DISK_GB": 20}


@pytest.mark.parametrize(
    ("options", "title", "number"),
    [((), "Claimed", 1), (("--no-claim",), "Selected, not claimed", 0)],
)
def test_select_prints_the_funnel_and_the_selected_host(run_cli, cloud, options, title, number):
    status, printed, _ = run_cli("select", *SIZE_OPTIONS, *options)
    words = " ".join(printed.split())
    assert status == 0
    for text in ("resources MEMORY_MB:4096", "ComputeFilter", title):
        assert text in words
    assert "DISK_GB=20, MEMORY_MB=4096, VCPU=2" in words
    assert len(cloud.get("/scheduler/v1/instances").json["instances"]) == number


def test_select_that_finds_no_valid_host_prints_the_reason_and_the_funnel(run_cli, cloud):
    status, printed, error = run_cli("select", "--vcpus", "2", "--ram", "30000")
    words = "placement-sched: no valid host: 3 hosts meet all constraints but resources MEM"
    assert (status, "No valid host" in printed, error.count("\n")) == (1, True, 1)
    assert error.startswith(words)
    status, printed, error = run_cli("select", "--ram", "30000", "--format", "json")
    document = json.loads(printed)
    assert (status, document["code"], error.count("\n")) == (1, "scheduler.no_valid_host", 1)
    assert document["funnel"]["allocation_candidates"]["hosts"] == 0
    assert cloud.get("/scheduler/v1/instances").json["instances"] == []


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (("explain",), 0),
        (("explain", "--fail-on-no-host"), 3),
        (("explain", "--fail-on-no-host", "--format", "json"), 3),
        (("explain", "--fail-on-no-host", "--compare", "default,dense"), 3),
        (("select", "--no-claim"), 1),
        (("select", "--no-claim", "--fail-on-no-host"), 3),
        (("select", "--no-claim", "--fail-on-no-host", "--format", "json"), 3),
    ],
)
def test_explain_without_a_valid_host_exits_with_3_if_fail_on_no_host_is_given(
    run_cli, tmp_path, command, status
):
    file = tmp_path / "policies.conf"
    file.write_text("[dense]\nram_weight_multiplier = -1.0\n")
    command = (*command, "--config-file", str(file))
    assert run_cli(*command, "--ram", "30000")[0] == status
    if "--compare" not in command:
        assert run_cli(*command, "--ram", "1000")[0] == 0
        assert run_cli(*command, "--ram", "-1")[0] == 1


def test_repeated_select_of_an_instance_prints_the_first_selection(run_cli, tmp_path):
    request = tmp_path / "request.json"
    flavor = {"name": "small", "vcpus": 8, "memory_mb": 8192, "root_gb": 0}
    uuid = "5f3c2d1e-0000-4000-8000-000000000001"
    request.write_text(json.dumps({"flavor": flavor, "instance_uuids": [uuid]}))
    first, second = (run_cli("select", str(request), "--format", "json") for _ in range(2))
    assert first == second


def test_explain_prints_the_explanation_document_as_json(run_cli, cloud):
    status, printed, _ = run_cli("explain", *SIZE_OPTIONS, "--format", "json")
    document = json.loads(printed)
    assert status == 0
    assert document["outcome"] == "selected"
    assert [host["host"] for host in document["hosts"]] == ["cn3", "cn2", "cn1"]
    _, printed, _ = run_cli("explain", *SIZE_OPTIONS)
    assert "Best 3 of 3" in printed
    assert "RAMWeigher" in printed
    assert cloud.get("/scheduler/v1/instances").json["instances"] == []


def test_explain_prints_the_verdict_on_a_requested_host_first(run_cli):
    status, printed, error = run_cli("explain", *SIZE_OPTIONS, "--host", "cn2")
    assert (status, error) == (0, "")
    first, *rest = printed.splitlines()
    assert first.startswith("cn2  passed, rank 2 of 3, weight ")
    flat = [" ".join(line.split()) for line in rest]
    assert "Requested cn2" in flat
    assert "rank 2 of 3" in flat
    assert not [line for line in flat if "cn3" in line]


def test_explain_prints_every_rejection_reason_of_a_requested_host(run_cli):
    status, printed, _ = run_cli("explain", "--vcpus", "9", "--ram", "10000", "--host", "cn1")
    assert status == 0
    shown = " ".join(printed.split())
    assert shown.startswith(
        "cn1 rejected, passes after the changes below "
        "resources MEMORY_MB:10000 MEMORY_MB: 8192 free of 8192, 10000 requested "
    )
    assert "resources VCPU:9 VCPU: at most 8 in one allocation (max_unit), 9 requested" in shown


def test_explain_of_an_unknown_host_is_an_error_with_the_nearest_name(run_cli):
    status, printed, error = run_cli("explain", *SIZE_OPTIONS, "--host", "cn7")
    assert (status, printed) == (1, "")
    assert error.startswith("placement-sched: --host: unknown host 'cn7'. Did you mean 'cn")


def test_explain_prints_verdicts_on_known_hosts_if_other_requested_hosts_are_unknown(run_cli):
    hosts = ("--host", "mars", "--host", "cn1", "--host", "venus")
    status, printed, error = run_cli("explain", *SIZE_OPTIONS, *hosts)
    assert status == 1
    assert printed.startswith("cn1  passed, rank 3 of 3")
    assert (
        error
        == "placement-sched: --host: unknown hosts 'mars', 'venus'. There are: cn1, cn2, cn3\n"
    )
    status, printed, error = run_cli("explain", *SIZE_OPTIONS, *hosts, "--format", "json")
    assert status == 1
    verdicts = [verdict["verdict"] for verdict in json.loads(printed)["verdicts"]]
    assert verdicts == ["unknown", "passed", "unknown"]


def test_host_requested_by_node_uuid_is_shown_by_its_host_name(run_cli):
    uuid = uuid_of("cn2")
    _, printed, _ = run_cli("explain", *SIZE_OPTIONS, "--host", uuid)
    assert printed.startswith(f"cn2, requested as {uuid}  passed")


def test_policy_comparison_shows_the_ranks_of_a_host_in_one_row(run_cli, tmp_path):
    file = tmp_path / "policies.conf"
    file.write_text("[tight]\nenabled_filters = ComputeFilter\nram_weight_multiplier = -1.0\n")
    flags = ("--host", "cn1", "--compare", "default,tight", "--config-file", str(file))
    status, printed, _ = run_cli("explain", *SIZE_OPTIONS, *flags)
    (row,) = [line for line in printed.splitlines() if line.startswith("cn1")]
    assert status == 0
    assert "rank 3 of 3" in row
    assert "rank 1 of 3" in row


def test_override_option_accepts_json_or_text(run_cli):
    override = 'filter_scheduler.enabled_filters=["AllHostsFilter"]'
    text = "filter_scheduler.ram_weight_multiplier=-1.0"
    arguments = ("explain", *SIZE_OPTIONS, "--override", override, "--override", text)
    _, printed, _ = run_cli(*arguments, "--format", "json")
    document = json.loads(printed)
    assert [stage["name"] for stage in document["funnel"]["filters"]] == ["AllHostsFilter"]
    assert {"name": "RAMWeigher", "multiplier": -1.0} in document["funnel"]["weighers"]


def test_property_image_and_flavor_options_set_traits_and_resources_of_the_request(run_cli, cloud):
    attributes = {"name": "linux", "trait:HW_CPU_X86_AVX2": "required"}
    uuid = cloud.post_json("/image/v2/images", attributes).json["id"]
    flavor = {"id": "f1", "name": "m1", "ram": 4096, "vcpus": 2, "disk": 20}
    cloud.post_json("/compute/v2.1/flavors", {"flavor": flavor})
    avx2 = "required=HW_CPU_X86_AVX2"
    both = ("--property", "trait:HW_CPU_X86_AVX2=required", "--image-property", "hw_x=a")
    for arguments, words in (
        ((*SIZE_OPTIONS, *both), avx2),
        ((*SIZE_OPTIONS, "--image", "linux"), avx2),
        ((*SIZE_OPTIONS, "--image", uuid), avx2),
        (("--flavor", "f1"), "DISK_GB%3A20%2CMEMORY_MB%3A4096%2CVCPU%3A2"),
        (("--flavor", "m1"), "DISK_GB%3A20%2CMEMORY_MB%3A4096%2CVCPU%3A2"),
    ):
        _, printed, _ = run_cli("explain", *arguments, "--format", "json")
        assert words in json.loads(printed)["funnel"]["allocation_candidates"]["query"]


def test_argument_of_select_is_a_flavor_unless_a_file_has_its_name(
    run_cli, cloud, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    body = {"flavor": {"name": "m1.tiny", "vcpus": 1, "ram": 512, "disk": 1}}
    cloud.post_json(
        "/compute/v2.1/flavors", body, headers={"OpenStack-API-Version": "compute 2.96"}
    )
    for command in (("explain",), ("select", "--no-claim")):
        status, printed, _ = run_cli(*command, "m1.tiny")
        assert (status, "MEMORY_MB:512" in printed) == (0, True)
    (tmp_path / "m1.tiny").write_text("not JSON")
    status, _, error = run_cli("explain", "m1.tiny")
    assert (status, error.startswith("placement-sched: m1.tiny: not JSON")) == (1, True)


def test_explain_reads_the_request_from_stdin(run_cli, monkeypatch):
    flavor = {"name": "x", "vcpus": 1, "memory_mb": 1, "root_gb": 0}
    body = json.dumps({"request_spec": {"flavor": flavor}, "return_alternates": True})
    monkeypatch.setattr("sys.stdin", StringIO(body))
    status, printed, _ = run_cli("explain", "-", "--format", "json")
    assert (status, json.loads(printed)["outcome"]) == (0, "selected")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("absent.json",), "absent.json: No such file or directory"),
        (("absent",), "FLAVOR: There is no stored flavor 'absent'"),
        (("--flavor", "absent"), "--flavor: There is no stored flavor 'absent'"),
        *(
            ((option, "-1"), f"placement-sched: {option}: -1 is less than the minimum of 0\n")
            for option in ("--vcpus", "--ram", "--disk")
        ),
        (("--vcpus", "1", "--count", "100000"), ": --count: 100000 is greater than the maximum of"),
        (("--vcpus", "1", "--count", "0"), ": --count: 0 is less than the minimum of 1\n"),
        (("--vcpus", "1", "--zone", "a\tb"), "placement-sched: --zone: "),
        (("--vcpus", "1", "--project", "x" * 256), "placement-sched: --project: "),
        *(
            (
                (f"--{noun}", "absent"),
                f": --{noun}: There is no stored {noun} 'absent'. There are none\n",
            )
            for noun in ("flavor", "image")
        ),
        (
            ("--vcpus", "1", "--url", "http://x", "--token", "ü€"),
            "that are not allowed in a header",
        ),
        (("--vcpus", "1", "--url", "http://127.0.0.1:1"), "does not answer"),
    ],
)
@pytest.mark.parametrize(
    "command", ["explain", pytest.param("select", marks=pytest.mark.exhaustive)]
)
def test_invalid_explain_or_select_option_is_reported(run_cli, command, arguments, words):
    status, printed, error = run_cli(command, *arguments)
    assert status == 1
    assert printed == ""
    assert words in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "no request: add a FLAVOR, a REQUEST.json"),
        (("absent.json", "--vcpus", "1"), "--vcpus cannot be combined with a request file"),
        (
            ("--image", "x", "--image-property", "a=b"),
            "--image cannot be combined with --image-property",
        ),
        (("absent", "--flavor", "x"), "FLAVOR absent and --flavor x exclude each other"),
        (("--property", "nonsense"), "--property nonsense: expected KEY=VALUE"),
        *(
            (("--flavor", "x", *words), "--flavor cannot be combined with --vcpus, --ram, --disk a")
            for words in (("--vcpus", "1"), ("--property", "a=b"))
        ),
        (("x", "--vcpus", "1"), "placement-sched: FLAVOR cannot be combined with --vcpus, --ram"),
        (("--vcpus", "1", "--url", "http://[x"), "expected an http:// or https:// URL"),
        (("--vcpus", "1", "--url", "http://127.0.0.1:1/ü"), "/ü: not ASCII"),
        (("--vcpus", "1", "--url", "ftp://x"), "expected an http:// or https:// URL"),
    ],
)
@pytest.mark.parametrize(
    "command", ["explain", pytest.param("select", marks=pytest.mark.exhaustive)]
)
def test_wrong_arguments_of_explain_or_select_end_with_status_2(run_cli, command, arguments, words):
    status, printed, error = run_cli(command, *arguments)
    assert (status, printed) == (2, "")
    assert words in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("text", ["[]", "{", "1"])
def test_invalid_request_file_is_reported_by_name(run_cli, tmp_path, text):
    (tmp_path / "bad.json").write_text(text)
    status, _, error = run_cli("explain", str(tmp_path / "bad.json"))
    assert status == 1
    assert "bad.json: " in error


def test_policy_comparison_with_an_unknown_policy_lists_all_policies(run_cli):
    status, _, error = run_cli("explain", *SIZE_OPTIONS, "--compare", "dense,sparse")
    assert status == 1
    assert error.endswith("there is no policy 'dense'. There are: default\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--override", "scheduler.nonsense=1"), "--override: there is no option 'scheduler.non"),
        (("--override", 'scheduler.max_attempts={"a": 1}'), "--override scheduler.max_attempts: "),
        (("--override", "scheduler.max_attempts=x"), "--override scheduler.max_attempts: "),
        (("--host", ""), "--host: "),
        (("--policy", "gold"), "--policy: there is no policy 'gold'. There are: default"),
        (("--compare", "gold,default"), "--compare: there is no policy 'gold'. There are: default"),
        (("--property", "hw:cpu_policy=x"), "flavor extra spec 'hw:cpu_policy'"),
        (("--image-property", "hw_cpu_policy=x"), "image property 'hw_cpu_policy'"),
    ],
)
def test_invalid_explain_option_is_reported_by_name(run_cli, arguments, words):
    status, printed, error = run_cli("explain", *SIZE_OPTIONS, *arguments)
    assert (status, printed) == (1, "")
    assert error.startswith(f"placement-sched: {words}")
    assert "$" not in error


def test_json_path_of_a_request_file_is_kept_in_the_error(run_cli, tmp_path):
    request = tmp_path / "request.json"
    request.write_text(json.dumps({"flavor": {"vcpus": -1, "memory_mb": 1}}))
    status, _, error = run_cli("explain", str(request), "--override", "scheduler.max_attempts=2")
    assert status == 1
    assert "(at $.request_spec.flavor.vcpus)" in error


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "x", ""])
def test_timeout_option_must_be_a_number_of_seconds(run_cli, seconds):
    status, _, error = run_cli("explain", "--vcpus", "1", f"--timeout={seconds}")
    assert status == 2
    assert "--timeout: expected a number of seconds" in error


def test_explain_and_select_send_the_request_to_the_server_of_the_url_option(cloud, run_main):
    with serve_application(cloud.app) as url:
        status, printed, _ = run_main("explain", *SIZE_OPTIONS, "--url", url, "--format", "json")
        assert (status, json.loads(printed)["outcome"]) == (0, "selected")
        status, printed, error = run_main("select", "--ram", "30000", "--url", url)
        assert (status, "No valid host" in printed) == (1, True)
        assert error.startswith("placement-sched: no valid host: ")


@pytest.mark.parametrize(
    ("path", "arguments", "words"),
    [
        ("", ("--count", "100000"), "--count: 100000 is greater than the maximum of 1000 (400, r"),
        ("", ("--token", "nobody"), "(403, req-"),
        ("/image", (), ""),
    ],
    ids=["option", "token", "another service"],
)
def test_error_response_of_the_server_is_reported_in_one_line(
    cloud, run_main, path, arguments, words
):
    with serve_application(cloud.app) as url:
        status, _, error = run_main("explain", *SIZE_OPTIONS, "--url", url + path, *arguments)
    assert (status, error.count("\n")) == (1, 1)
    assert words in error


def test_explain_reports_an_unknown_zone_with_the_nearest_name(run_cli):
    """A request filter rejects the request, although hosts exist."""
    status, printed, _ = run_cli("explain", *SIZE_OPTIONS, "--zone", "novas")
    assert status == 0
    assert "has no resource provider" not in printed
    assert "Did you mean 'nova'?" in " ".join(printed.split())


def test_explain_html_option_writes_the_report_and_no_other_file(run_cli, tmp_path):
    report = tmp_path / "reports" / "report.html"
    report.parent.mkdir()
    run_cli("explain", "--vcpus", "1", "--ram", "1024", "--disk", "1", "--html", str(report))
    text = report.read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert "passed all stages" in text
    assert list(report.parent.iterdir()) == [report]


@pytest.mark.parametrize(
    ("file", "message"),
    [("none/report.html", "No such file or directory"), ("taken", "Is a directory")],
)
@pytest.mark.parametrize(
    "command",
    [("explain", "--vcpus", "1"), ("decision", "show", "KEPT")],
    ids=lambda words: words[0],
)
def test_unwritable_html_report_creates_no_file(run_cli, tmp_path, command, file, message):
    (tmp_path / "taken").mkdir()
    if command[-1] == "KEPT":
        options = ("--vcpus", "1", "--keep", "--format", "json")
        command = (*command[:-1], json.loads(run_cli("explain", *options)[1])["decision"])
    before = sorted(tmp_path.rglob("*"))
    status, printed, error = run_cli(*command, "--html", str(tmp_path / file))
    assert (status, printed) == (1, "")
    assert error == f"placement-sched: --html {tmp_path / file}: {message}\n"
    assert sorted(tmp_path.rglob("*")) == before


def test_explain_applies_force_host_and_ignore_host_options(run_cli):
    _, printed, _ = run_cli("explain", *SIZE_OPTIONS, "--force-host", "cn2", "--format", "json")
    assert [host["host"] for host in json.loads(printed)["hosts"]] == ["cn2"]
    options = ("--ignore-host", "cn2", "--ignore-host", "cn3")
    _, printed, _ = run_cli("explain", *SIZE_OPTIONS, *options, "--format", "json")
    assert [host["host"] for host in json.loads(printed)["hosts"]] == ["cn1"]


@pytest.mark.parametrize("option", ["--force-host", "--ignore-host"])
def test_explain_with_a_missing_forced_or_ignored_host_fails_with_the_nearest_name(run_cli, option):
    status, out, err = run_cli("explain", *SIZE_OPTIONS, option, "cn9")
    assert status == 1
    assert "in   out" in out
    assert f"{option}: there is no host 'cn9'. Did you mean 'cn1'?" in err


def test_missing_host_in_a_request_file_is_reported_with_its_field(run_cli, tmp_path):
    flavor = {"name": "m1", "vcpus": 1, "memory_mb": 1, "root_gb": 0}
    file = tmp_path / "request.json"
    file.write_text(json.dumps({"request_spec": {"flavor": flavor, "force_hosts": ["cn9"]}}))
    status, _, err = run_cli("explain", str(file))
    assert status == 1
    assert "request_spec.force_hosts: there is no host 'cn9'. Did you mean 'cn1'?" in err


def write_requests_file(folder, *flavors):
    path = folder / "cluster.json"
    requests = [{"request_spec": {"flavor": flavor}} for flavor in flavors]
    path.write_text(json.dumps({"requests": requests}))
    return str(path)


SMALL_FLAVOR = {"name": "small", "vcpus": 1, "memory_mb": 1024, "root_gb": 1}


def test_select_places_all_requests_of_a_file_in_one_call(run_cli, cloud, tmp_path):
    path = write_requests_file(tmp_path, SMALL_FLAVOR, {**SMALL_FLAVOR, "memory_mb": 20000})
    status, printed, _ = run_cli("select", path)
    assert status == 0
    assert [line.split()[1] for line in printed.splitlines()[-2:]] == ["cn3", "cn3"]
    instances = cloud.get("/scheduler/v1/instances").json["instances"]
    assert all(read_allocations(cloud, entry["uuid"]) for entry in instances)
    assert len(instances) == 2


def test_request_of_a_file_without_valid_host_is_named_by_its_position(run_cli, cloud, tmp_path):
    path = write_requests_file(tmp_path, SMALL_FLAVOR, {**SMALL_FLAVOR, "memory_mb": 30000})
    status, printed, error = run_cli("select", path, "--fail-on-no-host")
    assert (status, printed) == (3, "")
    assert error.startswith("placement-sched: No valid host was found for requests[1]: ")
    assert cloud.get("/scheduler/v1/instances").json["instances"] == []
    status, printed, error = run_cli("explain", path)
    assert (status, printed) == (1, "")
    assert error == (
        f"placement-sched: {path}: only the command select accepts 'requests': use "
        "'request_spec' with a single request\n"
    )
