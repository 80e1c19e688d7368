"""Applications under the first part of a path."""

import pytest
from werkzeug.test import create_environ, run_wsgi_app

from placement_sched.api.mounts import mounted
from placement_sched.app import make_services, placement_app


def told(name):
    """An application that tells who it is, and where it thinks it stands."""
    return lambda environ, _start: [name, environ.get("SCRIPT_NAME", ""), environ["PATH_INFO"]]


SERVICE = mounted({"/a": told("a"), "/b": told("b")}, told("otherwise"))


@pytest.mark.parametrize(
    ("path", "seen"),
    [
        ("/a", ["a", "/front/a", ""]),
        ("/a/", ["a", "/front/a", "/"]),
        ("/b/a/c", ["b", "/front/b", "/a/c"]),
        ("", ["otherwise", "/front", ""]),
        ("/", ["otherwise", "/front", "/"]),
        ("/c/a", ["otherwise", "/front", "/c/a"]),
        ("/ab", ["otherwise", "/front", "/ab"]),
        ("//a", ["otherwise", "/front", "//a"]),
        ("a", ["otherwise", "/front", "a"]),
        (";x=1", ["otherwise", "/front", ";x=1"]),
    ],
)
def test_the_first_part_decides_and_the_rest_is_left(path, seen):
    assert SERVICE({"SCRIPT_NAME": "/front", "PATH_INFO": path}, None) == seen


def test_a_path_without_a_slash_is_no_root(sqlite_settings):
    services = make_services(sqlite_settings)
    environ = {**create_environ(headers={"X-Auth-Token": "admin"}), "PATH_INFO": ";x=1"}
    _, status, _ = run_wsgi_app(placement_app(services), environ)
    services.database.dispose()
    assert status == "404 Not Found"
