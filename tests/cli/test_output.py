# SPDX-License-Identifier: Apache-2.0
"""Formats, columns and units of lists and shows, and progress bars."""

import argparse
import json
import os
import pty
import subprocess
import sys

import pytest
import yaml

from placement_sched.cli.output import (
    Column,
    Output,
    TextConsole,
    format_amount,
    make_table,
    print_output,
    print_result,
)
from placement_sched.errors import Invalid
from tests.support.servers import build_environment

INSTANCE_UUID = "5f3c2d1e-0000-4000-8000-000000000001"
HOST_COLUMNS = (
    Column("Host", lambda row: row["host"]),
    Column(
        "Free memory",
        lambda row: row["free"],
        lambda row: format_amount("MEMORY_MB", row["free"]),
        right=True,
    ),
    Column("Traits", lambda row: row.get("traits"), hidden=True),
)
HOST_ROWS = [{"host": "cn2", "free": 65536, "traits": ["A", "B"]}, {"host": "cn1", "free": None}]


@pytest.fixture
def print_rows(capsys, monkeypatch):
    """Return a function that prints rows with output options and returns the output."""
    monkeypatch.delenv("COLUMNS", raising=False)

    def print_and_get_output(
        output_format: str, *columns: str, sort: str | None = None, is_show: bool = False
    ) -> str:
        sort_column = [] if sort is None else [sort]
        arguments = argparse.Namespace(
            format=output_format, column=list(columns), sort_column=sort_column
        )
        rows = HOST_ROWS[:1] if is_show else HOST_ROWS
        print_output(arguments, Output({"hosts": rows}, HOST_COLUMNS, rows, is_show=is_show))
        return capsys.readouterr().out

    return print_and_get_output


def test_table_shows_units_and_lists_and_a_dash_for_a_missing_value(print_rows):
    heading, _, *rows = print_rows("table").splitlines()
    assert heading.split() == ["Host", "Free", "memory"]
    assert [row.split() for row in rows] == [["cn2", "64", "GiB"], ["cn1", "-"]]
    assert print_rows("table", "traits").split()[-3:] == ["A,", "B", "-"]


def test_show_command_prints_a_table_of_fields(print_rows):
    heading, _, *rows = [line.split() for line in print_rows("table", is_show=True).splitlines()]
    assert heading == ["Field", "Value"]
    assert rows == [["Host", "cn2"], ["Free", "memory", "64", "GiB"]]


def test_csv_and_value_output_have_exact_values(print_rows):
    assert (
        print_rows("csv", "Host", "Free memory") == '"Host","Free memory"\n"cn2",65536\n"cn1",""\n'
    )
    assert print_rows("csv", "traits") == '"Traits"\n"[""A"", ""B""]"\n""\n'
    assert print_rows("value", "host", "free-memory") == "cn2 65536\ncn1 None\n"
    assert print_rows("value", "host", "free_memory", is_show=True) == "cn2\n65536\n"


@pytest.mark.parametrize(("form", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_json_and_yaml_output_have_all_fields_or_the_selected_columns(print_rows, form, parse):
    assert parse(print_rows(form)) == {"hosts": HOST_ROWS}
    assert parse(print_rows(form, "host")) == [{"Host": "cn2"}, {"Host": "cn1"}]
    assert parse(print_rows(form, "host", is_show=True)) == {"Host": "cn2"}


def test_output_rows_are_sorted_with_missing_values_last(print_rows):
    assert print_rows("value", "host", sort="HOST") == "cn1\ncn2\n"
    assert print_rows("value", "host", sort="free memory") == "cn2\ncn1\n"


@pytest.mark.parametrize(
    ("name", "words"),
    [("hst", "'hst'. Did you mean 'Host'? There are: Host, Free memory, Traits"), ("x", "Traits")],
)
def test_unknown_output_column_is_reported_with_the_known_columns(print_rows, name, words):
    with pytest.raises(Invalid, match="there is no column") as failure:
        print_rows("table", name)
    assert words in failure.value.detail


@pytest.mark.parametrize(
    ("resource_class", "amount", "text"),
    [
        ("MEMORY_MB", 512, "512 MiB"),
        ("MEMORY_MB", 65536, "64 GiB"),
        ("MEMORY_MB", 1536, "1.5 GiB"),
        ("DISK_GB", 1000, "1000 GiB"),
        ("DISK_GB", 2048, "2 TiB"),
        ("VCPU", 72234, "72,234"),
        ("VCPU", None, "-"),
    ],
)
def test_resource_amounts_in_tables_have_readable_units(resource_class, amount, text):
    assert format_amount(resource_class, amount) == text


def print_wide_table() -> None:
    table = make_table("Name", "Instance")
    table.add_row("a name of several words " * 5, f"{INSTANCE_UUID} and more words")
    TextConsole().print(table)


def test_table_written_to_a_pipe_has_complete_unpadded_lines(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    print_wide_table()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[0].endswith("Instance")
    assert lines[2].endswith(f"{INSTANCE_UUID} and more words")


@pytest.mark.parametrize("columns", ["60", "20"])
def test_table_on_a_terminal_wraps_cells_but_no_uuid(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_wide_table()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 3
    assert any(INSTANCE_UUID in line for line in lines)


def test_command_with_text_output_prints_its_document_as_yaml(capsys):
    print_result(argparse.Namespace(format="yaml"), {"code": 0, "names": ["ä"]}, ["done"])
    assert capsys.readouterr().out == "code: 0\nnames:\n- ä\n"


PROGRESS_BAR_PROGRAM = """
from placement_sched.cli.output import show_progress
with show_progress("working") as advance:
    advance(1, 2)
    print("a line")
"""


@pytest.mark.slow
def test_progress_bar_is_on_stderr_and_other_output_on_stdout():
    master, slave = pty.openpty()
    try:
        result = subprocess.run(
            [sys.executable, "-c", PROGRESS_BAR_PROGRAM],
            stdout=subprocess.PIPE,
            stderr=slave,
            env=build_environment(TERM="xterm"),
            check=True,
            timeout=240,
        )
        assert b"working" in os.read(master, 10_000)
    finally:
        os.close(slave)
        os.close(master)
    assert result.stdout == b"a line\n"
