# SPDX-License-Identifier: Apache-2.0
"""The lint of the project's English reports its habits, and accepts plain sentences."""

import subprocess

import pytest

from tests.house import language
from tests.house.language import (
    CheckedText,
    compare_counts,
    find_style_violations,
    list_texts,
    read_lowest_totals,
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("kind", "text", "habits"),
    [
        ("comment", "Return the host where there is one.", ["where", "one"]),
        ("comment", "Return what is asked.", ["what", "asks"]),
        ("comment", "Return those of a host, in which case none is left.", ["those", "which"]),
        ("comment", "Wait so long; then stop.", ["semicolon", "so many"]),
        ("comment", "Mend it as well.", ["odd word"]),
        ("comment", "Return these hosts if a filter rejects the candidates.", []),
        ("module", "Which hosts remain.", ["module question"]),
        ("module", "Host filtering.", []),
        ("docstring", "Return the hosts", ["long summary"]),
        ("docstring", f"Return {'very ' * 20}long lists.", ["long summary"]),
        ("docstring", f"Return {'very ' * 12}long lists.", ["wide summary"]),
        ("local", "found", ["vague local"]),
        ("local", "found_hosts", []),
    ],
)
def test_forbidden_words_and_wrong_summaries_of_docstrings_are_reported(kind, text, habits):
    assert list(find_style_violations(CheckedText("", "", kind, text))) == habits


def test_habit_count_above_or_below_its_limit_is_reported():
    limits = {("api", "one"): 2, ("api", "what"): 1, ("cli", "one"): 1}
    assert compare_counts({("api", "one"): 3, ("api", "what"): 1}, limits) == [
        "api: 3 texts with 'one', 2 are allowed",
        "cli: 0 texts with 'one': lower the limit (1)",
    ]


def test_lowest_sum_of_limits_is_read_from_the_history_of_their_file(tmp_path):
    file = tmp_path / "limits.txt"

    def commit(text):
        file.write_text(text)
        identity = ("-c", "user.name=n", "-c", "user.email=n@example.org")
        for command in (["add", "."], [*identity, "commit", "--quiet", "--message", "m"]):
            subprocess.run(["git", *command], cwd=tmp_path, check=True, timeout=60)

    file.write_text("api one 2\n")
    assert read_lowest_totals(file) == {}  # no repository
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True, timeout=60)
    commit("api one 2\ncli one 1\n")
    commit("api one 3\n")  # moved
    assert read_lowest_totals(file) == {"one": 3}
    commit("api one 9\napi what 1\n")
    commit("api one 8\napi what 1\n")
    assert read_lowest_totals(file) == {"one": 3, "what": 1}


def test_language_lint_reads_texts_of_every_kind():
    kinds = {"module", "docstring", "comment", "message", "paragraph", "local"}
    packages = {"placement_sched/api", "tests", "doc", "api-ref", "README.md", "CHANGELOG.md"}
    packages |= {"Makefile", "SECURITY.md", "bench", "deploy", "examples", "releasenotes"}
    read = list(list_texts())
    assert {text.kind for text in read} == kinds
    assert packages <= {text.package for text in read}


@pytest.mark.parametrize(
    ("name", "source", "texts"),
    [
        ("a.html", "<p title='x'>{% for one in rows %}a {{ one }}</p>", ["one", "a X"]),
        ("a.html", '{# Why. #}<a title="Where it is">', [" Why. ", "Where it is"]),
        ("a.js", 'const one = "not a word"; // said twice', [" said twice", "one", "not a word"]),
        ("a.conf", "# Who asks\nlisten 80", [" Who asks"]),
        ("a.yml", "alert: nobody asks it\nfor: 5m", ["nobody asks it"]),
    ],
)
def test_comments_visible_texts_and_locals_of_other_files_are_read(
    tmp_path, monkeypatch, name, source, texts
):
    monkeypatch.setattr(language, "ROOT", tmp_path)
    file = tmp_path / name
    file.write_text(source)
    assert [text.text for text in language.read_page_texts(file)] == texts
