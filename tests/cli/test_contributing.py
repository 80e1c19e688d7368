# SPDX-License-Identifier: Apache-2.0
"""The recipes of CONTRIBUTING.md, followed in a copy of the package.

The tests follow all recipes in the same copy, and run its command line and its server.
"""

import json
import re
import shutil

import pytest

from placement_sched.api.placement.microversions import NEWEST
from placement_sched.api.versions import Version
from tests.support.repository import PACKAGE, ROOT
from tests.support.versions import NEXT

pytestmark = pytest.mark.exhaustive

#: The table "Where a change goes": the new files of each row, by their path in the package.
FILES = {
    "add a host filter, weigher or request filter": {
        "scheduler/filters/recipe_filter.py": '''
"""RecipeFilter: only hosts with a name that fits."""

from oslo_config import cfg

from placement_sched.model.verdict import Rejection
from placement_sched.scheduler.filters import BaseHostFilter


class RecipeFilter(BaseHostFilter):
    """Rejects the host ``[filter_scheduler] recipe_host``."""

    options = (
        ("filter_scheduler", cfg.IntOpt("recipe_host", default=1, help="A host's number.")),
    )

    def rejection(self, host_state, spec_obj):
        if host_state.host == f"cn{self.settings.filter_scheduler.recipe_host}":
            return Rejection("rejected by the recipe")
        return None
''',
        "scheduler/weights/recipe.py": '''
"""RecipeWeigher: prefer the host with the last name."""

from placement_sched.scheduler.weights import BaseHostWeigher


class RecipeWeigher(BaseHostWeigher):
    """Prefers the host whose name ends with the highest digit."""

    def weight_multiplier(self, host_state):
        return 1000.0

    def _weigh_object(self, host_state, weight_properties):
        return int(host_state.host[-1])
''',
        "scheduler/request_filters/recipe_request_filter.py": '''
"""recipe_request_filter: changes nothing."""

from placement_sched.scheduler.request_filters import BaseRequestFilter, RequestFilterResult


class RecipeRequestFilter(BaseRequestFilter):
    """Says that it was there."""

    name = "recipe_request_filter"

    def apply(self, spec, context):
        return RequestFilterResult(spec, {"recipe": "followed"})
''',
        "scheduler/request_filters/another_recipe.py": '''
"""Another request filter, without a name of its own."""

from placement_sched.scheduler.request_filters import BaseRequestFilter


class AnotherRecipe(BaseRequestFilter):
    """Is never about the request."""

    def apply(self, spec, context):
        return None
''',
    },
    "make an extra spec known": {
        "scheduler/extra_specs/recipe.py": '''
"""``recipe:``: what recipes know."""

from placement_sched.scheduler.extra_specs.validator import ExtraSpecValidator


def register():
    """Return the extra specs of recipes."""
    return [
        ExtraSpecValidator(
            name="recipe:salt", description="How salty.", value={"type": int, "min": 0}
        )
    ]
'''
    },
    "add a command": {
        "cli/recipe.py": '''
"""``recipe``: prints the recipe."""

from placement_sched.cli.arguments import add_command


def register(commands):
    """Add the command."""
    add_command(commands, "recipe", "print the recipe", run)


def run(arguments):
    """Print it."""
    print("salt")
    return 0
'''
    },
    "add a column that is kept and shown": {
        "alembic/versions/0099_recipe.py": '''
"""Keep the salt of flavors.

Revision: 0099, after {head}.
"""

import sqlalchemy as sa
from alembic import op

revision = "0099"
down_revision = "{head}"
branch_labels = None
depends_on = None


def upgrade() -> None:
    salt = sa.Column("salt", sa.Integer, nullable=False, server_default="0")
    op.add_column("sched_flavors", salt)
'''
    },
}
#: The line that declares the newest microversion.
NEWEST_LINE = next(
    line
    for line in (PACKAGE / "api/placement/microversions.py").read_text().splitlines()
    if "NEWEST = " in line
)
#: The new lines in existing files of each row: file, the line before them, the lines.
LINES = {
    "add a column that is kept and shown": (
        (
            "db/tables.py",
            '    *integers("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap"),',
            '    *integers("salt", default="0"),',
        ),
        ("model/flavor.py", "    swap: int = 0", "    salt: int = 0"),
        ("api/compute/flavors.py", '    "swap": ("swap", 0),', '    "salt": ("salt", 0),'),
    ),
    "add a command": (
        (
            "cli/main.py",
            "GROUPS = {",
            '    "placement_sched.cli.recipe": {"recipe": "print the recipe"},',
        ),
    ),
    "add an option": (
        (
            "config/options/scheduler.py",
            "SCHEDULER = with_help(",
            '    cfg.IntOpt("recipe_salt", default=3, max=9),\n    "Grams of salt.",',
        ),
    ),
    "add a route": (
        (
            "api/policy_rules.py",
            "PLACEMENT_RULES = (",
            '    _placement_rule("recipe", "Show the recipe."),',
        ),
        (
            "api/placement/usages.py",
            'blueprint = Blueprint("usages", __name__)',
            """
@blueprint.get("/recipe", policy="placement:recipe")
def recipe(call: ApiCall) -> ApiResponse:
    return ApiResponse(body={"version": str(call.version)})
""",
        ),
    ),
    "add a microversion to the Placement API": (
        (
            "api/placement/usages.py",
            'blueprint = Blueprint("usages", __name__)',
            """

@blueprint.get("/recipe/new", policy="placement:recipe", since=mv.RECIPE)
def new_recipe(call: ApiCall) -> ApiResponse:
    return ApiResponse(body={"version": str(call.version)})
""",
        ),
        (
            "api/placement/microversions.py",
            NEWEST_LINE,
            f"RECIPE = NEWEST = Version({NEXT.major}, {NEXT.minor})",
        ),
    ),
}
CONFIGURATION = """
[placement_database]
connection = sqlite:///{folder}/recipe.db

[filter_scheduler]
enabled_filters = ComputeFilter,RecipeFilter
recipe_host = 3

[scheduler]
recipe_salt = {salt}
"""
CLOUD = 'hosts: [{host: "cn[1-4]", vcpus: 8, memory_mb: 8192, local_gb: 100}]\n'


@pytest.fixture(scope="module")
def package_copy(tmp_path_factory):
    """Return the folder of a copy of the package that follows every recipe."""
    folder = tmp_path_factory.mktemp("recipes")
    shutil.copytree(PACKAGE, folder / PACKAGE.name)
    shutil.copytree(ROOT / "alembic", folder / "alembic")
    head = max(path.name[:4] for path in (ROOT / "alembic" / "versions").glob("*.py"))
    for files in FILES.values():
        for path, text in files.items():
            place = folder if path.startswith("alembic/") else folder / PACKAGE.name
            (place / path).write_text(text.lstrip().replace("{head}", head))
    for path, before, lines in (line for recipe in LINES.values() for line in recipe):
        file = folder / PACKAGE.name / path
        text = file.read_text()
        assert text.count(f"\n{before}\n") == 1
        file.write_text(text.replace(f"\n{before}\n", f"\n{before}\n{lines}\n"))
    return folder


@pytest.fixture
def run_in_copy(run, package_copy, tmp_path):
    """Return a function that runs a command of the copy, by default with a configuration file."""

    def run_command(*arguments, salt=3, configured=True, status=0, stdin=""):
        file = tmp_path / "recipe.conf"
        file.write_text(CONFIGURATION.format(folder=tmp_path, salt=salt))
        files = ["--config-file", str(file)] if configured else []
        done = run(*arguments, *files, stdin=stdin, PYTHONPATH=str(package_copy))
        assert done.returncode == status, done.stderr
        return done.stdout

    return run_command


def recipe_rows():
    """Return the rows of the table: the change and its files."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    return dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", text, re.MULTILINE))


def test_every_recipe_that_adds_a_feature_is_tested():
    assert {row for row in recipe_rows() if row.startswith(("add ", "make "))} == {*FILES, *LINES}


def recipe_files(recipe):
    """Return the files of a recipe, relative to the repository."""
    paths = {*FILES.get(recipe, ()), *(path for path, *_ in LINES.get(recipe, ()))}
    return {path if path.startswith("alembic/") else f"{PACKAGE.name}/{path}" for path in paths}


def row_names_file(path, text):
    """Return whether a row names a file or its folder. ``<noun>`` matches any name."""
    for name in re.findall(r"`([\w./<>]+)`", text):
        pattern = re.sub(r"<\w+>", "[a-z_]+", re.escape(name))
        if re.search(rf"(^|/){pattern}{'([^/]+|[^/]+/__init__.py)' * name.endswith('/')}$", path):
            return True
    return False


def find_recipe_row(recipe):
    """Return the row of a recipe. "The same files" refers to the previous row."""
    files = None
    for row, text in recipe_rows().items():
        files = f"{files} {text}" if text.startswith("the same files") else text
        if row == recipe:
            return files
    raise AssertionError(f"CONTRIBUTING has no row {recipe!r}")


@pytest.mark.parametrize("recipe", sorted({*FILES, *LINES}))
def test_recipe_changes_the_files_that_the_page_lists(recipe):
    text = find_recipe_row(recipe)
    assert [path for path in recipe_files(recipe) if not row_names_file(path, text)] == []


@pytest.mark.parametrize(
    ("recipe", "count"),
    [
        ("add a column that is kept and shown", "six"),
        ("add a microversion to the Placement API", "four"),
    ],
)
def test_number_of_files_in_a_recipe_is_correct(recipe, count):
    text = recipe_rows()[recipe]
    assert text.startswith(f"{count} files: ")
    assert "the page in `api-ref/source" in text
    assert "the test" in text
    assert len(recipe_files(recipe)) + 2 == {"four": 4, "six": 6}[count]


def test_added_plugins_take_part_in_decisions(run_in_copy):
    run_in_copy("fleet", "load", "-", stdin=CLOUD)
    shown = json.loads(run_in_copy("explain", "--vcpus", "1", "--format", "json"))
    assert [host["host"] for host in shown["hosts"]] == ["cn4", "cn2", "cn1"]
    assert shown["hosts"][0]["weights"]["RecipeWeigher"]
    text = json.dumps(shown["funnel"])
    assert "rejected by the recipe" in text
    names = [request_filter["name"] for request_filter in shown["funnel"]["request_filters"]]
    assert names[-2:] == ["AnotherRecipe", "recipe_request_filter"]


def test_added_command_is_listed_and_runs(run_in_copy):
    assert "print the recipe" in run_in_copy("--help", configured=False)
    assert run_in_copy("recipe") == "salt\n"


def test_added_options_are_in_the_sample_and_checked(run_in_copy):
    sample = run_in_copy("config", "sample", configured=False)
    assert "#recipe_host = 1" in sample
    assert "#recipe_salt = 3" in sample
    assert run_in_copy("config", "validate") == "the configuration is valid\n"
    assert "recipe_salt" in run_in_copy("config", "validate", salt=10, status=1)


def test_added_extra_spec_is_accepted_by_a_server(serve, package_copy):
    server = serve(PYTHONPATH=str(package_copy))
    flavor = {"id": "1", "name": "m1", "vcpus": 1, "ram": 1, "disk": 1}
    version = {"OpenStack-API-Version": "compute 2.86"}
    assert server.post("/compute/v2.1/flavors", {"flavor": flavor})[0] == 200
    path = "/compute/v2.1/flavors/1/os-extra_specs"
    for value, status in (("3", 200), ("much", 400)):
        body = {"extra_specs": {"recipe:salt": value}}
        assert server.send("POST", path, body, **version)[0] == status
    body = {"extra_specs": {"recipe:pepper": "3"}}
    assert server.send("POST", path, body, **version)[0] == 400


def test_added_column_is_stored_and_shown(serve, package_copy):
    server = serve(PYTHONPATH=str(package_copy))
    flavor = {"id": "salted", "name": "m1", "vcpus": 1, "ram": 1, "disk": 1, "salt": 7}
    assert server.post("/compute/v2.1/flavors", {"flavor": flavor})[0] == 200
    assert server.request_json("GET", "/compute/v2.1/flavors/salted")["flavor"]["salt"] == 7


def test_route_is_served_from_its_microversion_on(serve, package_copy):
    server = serve(PYTHONPATH=str(package_copy))
    assert server.request_json("GET", "/placement/recipe", version="placement 1.0") == {
        "version": "1.0"
    }
    assert server.request_json("GET", "/placement/")["versions"][0]["max_version"] == str(NEXT)
    later = Version(NEXT.major, NEXT.minor + 1)
    for version, status in ((NEXT, 200), ("latest", 200), (NEWEST, 404), (later, 406)):
        path = "/placement/recipe/new"
        headers = {"OpenStack-API-Version": f"placement {version}"}
        assert server.send("GET", path, None, **headers)[0] == status
    assert server.request_json("GET", "/placement/recipe/new", version=f"placement {NEXT}") == {
        "version": str(NEXT)
    }
