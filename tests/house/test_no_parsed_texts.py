# SPDX-License-Identifier: Apache-2.0
"""Explanations, the console and the command line read no sentences.

A stage, a reason or a detail has values in JSON. A program that searches its text for them breaks
with the next correction of a sentence. Functions that take other texts apart are listed here.
Templates search no text for words, and scripts take no shown text apart.
"""

import ast
import re

import pytest

from tests.support.repository import PACKAGE, list_modules

pytestmark = pytest.mark.slow

FOLDERS = (
    *("explain", "scheduler/explain", "cli"),
    *("extensions/console", "extensions/fleet", "extensions/what_if/cli"),
)
FORBIDDEN_METHODS = {
    *("startswith", "endswith", "removeprefix", "removesuffix"),
    *("partition", "rpartition", "split", "rsplit", "splitlines"),
}
#: Functions and constants that take texts apart, by the texts.
ALLOWED = {
    "what a user types, in a command line or a form": {
        "cli/arguments:_UUID",
        "cli/arguments:_suggest",
        "cli/arguments:parse_positive_number",
        "cli/completion:find_names",
        "cli/main:convert_spelling",
        "cli/main:make_parser",
        "cli/scheduler/decisions:_find_decision",
        "cli/scheduler/request_options:RequestedChanges.find_place",
        "cli/scheduler/request_options:move_flavor_argument",
        "cli/scheduler/select:_compare",
        "extensions/console/ask:_describe_simulation",
        "extensions/console/capacity:CapacityForm.changes_typed",
        "extensions/console/cloud:_UUID_START",
        "extensions/console/capacity:_CONDITIONS",
        "extensions/console/capacity:_expand",
        "extensions/console/cloud:_search_decisions",
        "extensions/console/decisions:_WHEN",
        "extensions/console/forms:FormRequest._list",
        "extensions/console/forms:FormRequest._list_overrides",
        "extensions/console/forms:FormRequest.build_command",
        "extensions/console/forms:FormRequest.changes",
        "extensions/console/forms:_format_option",
        "extensions/console/forms:split_lines",
    },
    "paths and addresses, and JSON paths of errors": {
        "cli/scheduler/policy:_print_policy",
        "cli/scheduler/scheduler_client:_API_PATH",
        "cli/serve:_parse_address",
        "extensions/console/client:_get_label",
        "extensions/console/page:add_security_headers",
        "extensions/console/routes:_APIS",
        "extensions/console/routes:_READ_ONLY_POSTS",
        "extensions/console/routes:_check_request",
        "extensions/console/routes:_render_error",
        "extensions/console/session:SignInViews._revoke",
        "extensions/console/session:_TOKEN",
        "extensions/console/session:_check_target",
    },
    "times": {"cli/scheduler/decisions:_format_time"},
    "lines and cells for files, pipes and terminals": {
        "extensions/fleet/fleet_command:_cut",
        "cli/output:TextConsole.print",
        "cli/output:_UUID",
        "cli/scheduler/render_explanation:render",
        "extensions/console/page:send_csv",
    },
    "names of options, modules, variables, commands and kinds of records": {
        "cli/completion:register",
        "cli/db:_check_confirmed",
        "extensions/fleet/demo_command:_serve",
        "cli/nova:_sync_lines",
        "cli/openstack_client:define_command",
        "cli/service:_choose_metavar",
        "extensions/console/ask:_format_multiplier",
        "extensions/console/ask:_list_multipliers",
        "extensions/console/routes:_build_blueprint",
        "scheduler/explain/ineffective_specs:_find_reason",
    },
    "names of hosts, and nova's extra specs and metadata": {
        "cli/scheduler/hosts:_describe_hosts",
        "cli/scheduler/hosts:_format_name",
        "extensions/console/cloud:_build_row",
        "extensions/console/cloud:with_words",
        "extensions/fleet/anonymize:Anonymizer._convert_attribute",
        "extensions/fleet/anonymize:Anonymizer._convert_device_name",
        "extensions/fleet/anonymize:Anonymizer._convert_extra_specs",
        "extensions/fleet/anonymize:Anonymizer._convert_hints",
        "extensions/fleet/anonymize:Anonymizer._convert_metadata_key",
        "extensions/fleet/anonymize:Anonymizer._convert_metadata_value",
        "extensions/fleet/anonymize:Anonymizer._convert_pci_device",
        "extensions/fleet/anonymize:Anonymizer._convert_providers",
        "extensions/fleet/anonymize:Anonymizer._convert_query",
        "extensions/fleet/anonymize:Anonymizer._convert_stats",
        "extensions/fleet/anonymize:Anonymizer._convert_zone",
        "extensions/fleet/anonymize:_CUSTOM",
        "extensions/fleet/anonymize:_DERIVED",
        "extensions/fleet/anonymize:_GROUP_KEY",
        "extensions/fleet/anonymize:_HARDWARE",
        "extensions/fleet/anonymize:_LIST_PROPERTIES",
        "extensions/fleet/anonymize:_METADATA",
        "extensions/fleet/anonymize:_NUMBER",
        "extensions/fleet/anonymize:_PART",
        "extensions/fleet/anonymize:_STATS",
        "extensions/fleet/anonymize:_STATS_VARIABLE",
        "extensions/fleet/anonymize:_UUID",
        "extensions/fleet/anonymize:_WORD",
        "extensions/fleet/anonymize:_is_property",
        "extensions/fleet/anonymize:_list_compared_keys",
        "extensions/fleet/anonymize:_replace_operands",
        "scheduler/explain/explanation:_remove_traits",
        "scheduler/explain/ineffective_specs:_LIKE_OPERATOR",
        "scheduler/explain/ineffective_specs:_REPORTED",
        "scheduler/explain/ineffective_specs:_find_wrong_operator",
    },
    "names and labels of an anonymised cloud": {
        "extensions/fleet/names:Names._format_label",
        "extensions/fleet/names:Names._restore_label",
        "extensions/fleet/names:_DIGEST",
        "extensions/fleet/names:_LABEL",
        "extensions/fleet/names:_number_zones",
    },
    "messages and help of argparse, keystoneauth and oslo.log, which have no values": {
        "cli/arguments:Parser.reject_arguments",
        "cli/arguments:_UNKNOWN_COMMAND",
        "cli/login:_make_cloud_adapters",
        "cli/login:_make_variable_adapters",
        "cli/service:add_log_options",
    },
}


def test_only_listed_functions_take_texts_apart():
    listed = [name for names in ALLOWED.values() for name in names]
    assert len(listed) == len(set(listed))
    assert find_functions_that_parse() == set(listed)


def find_functions_that_parse():
    """Return the functions that use ``re`` or a forbidden method."""
    functions = set()
    for path in list_modules():
        module = path.relative_to(PACKAGE).with_suffix("").as_posix()
        if module.startswith(tuple(f"{folder}/" for folder in FOLDERS)):
            for part in ast.parse(path.read_text()).body:
                functions.update(f"{module}:{name}" for name in find_names_that_parse(part))
    return functions


def find_names_that_parse(part, outer=""):
    """Yield the names in a part of a module that parse texts."""
    name = outer + get_name(part)
    if isinstance(part, ast.ClassDef):
        for inner in part.body:
            yield from find_names_that_parse(inner, f"{name}.")
    elif any(map(takes_text_apart, ast.walk(part))):
        yield name


def get_name(part):
    """Return the name of a function or constant."""
    match part:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
    return getattr(part, "name", "")


def takes_text_apart(node):
    match node:
        case ast.Attribute(value=ast.Name(id="re")) | ast.ImportFrom(module="re"):
            return True
        case ast.Attribute(attr=method):
            return method in FORBIDDEN_METHODS
        case ast.Compare(left=ast.Constant(value=str(words)), ops=[ast.In() | ast.NotIn()]):
            return " " in words
    return False


#: A search of a template's value for several words, or for the start of a text.
_SEARCH = re.compile(
    r"""("[^"]* [^"]*"|'[^']* [^']*')\s+(?:not\s+)?in\s"""
    r"|\.(?:startswith|endswith|r?partition|r?split)\("
)


def find_searches(template):
    """Return the searches for words in the statements of a template."""
    statements = re.findall(r"\{[%{].*?[%}]\}", template, re.DOTALL)
    return [each for each in statements if _SEARCH.search(each)]


def test_templates_search_no_text_for_words():
    templates = sorted(PACKAGE.rglob("templates/**/*.html"))
    searching = [path.name for path in templates if find_searches(path.read_text())]
    # A node is often named after its host.
    assert searching == ["hosts.html"]


#: A script that takes a shown text apart.
_SHOWN_TEXT = re.compile(
    r"(?:textContent|words|reason|detail)\??\."
    r"(?:split|startsWith|endsWith|match|replace|includes|slice)\("
)


def test_scripts_take_no_shown_text_apart():
    scripts = sorted(PACKAGE.rglob("static/*.js"))
    assert scripts
    assert [path.name for path in scripts if _SHOWN_TEXT.search(path.read_text())] == []
    assert _SHOWN_TEXT.search('place.textContent.split(": ")[0]')


@pytest.mark.parametrize(
    "line",
    [
        "short = reason.partition(' but ')[2]",
        "x = re.sub('a', '', reason)",
        "from re import sub",
        "is_miss = 'constraints but' in reason",
    ],
)
def test_ways_to_take_a_text_apart_are_found(line):
    (part,) = ast.parse(line).body
    assert list(find_names_that_parse(part)) == [get_name(part)]


@pytest.mark.parametrize(
    "statement",
    ['{% if "constraints but" in conclusion %}', '{{ "x" if reason.startswith("VCPU") }}'],
)
def test_searches_in_templates_are_found(statement):
    assert find_searches(f"<p>{statement}</p>") == [statement]
