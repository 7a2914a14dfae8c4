"""The document: the specification's rules, checked against its reference implementation, and safe export."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from skills_ref import validate as reference_validate
from skills_ref.parser import parse_frontmatter as reference_parse

from coevo.errors import SkillError
from coevo.skill import Budgets, SkillDocument, estimate_tokens, export

SEED = Path(__file__).parent.parent / "skills" / "web"

characters = st.characters(
    exclude_categories=["Cs", "Cc", "Cn"], exclude_characters="\u2028\u2029\ufeff", include_characters="\n\t"
)
text = st.text(characters | st.sampled_from("-:#'\"\\ \n"), max_size=30)
line = text.map(lambda value: " ".join(value.split())).filter(bool)
names = st.lists(st.text("abcz019é", min_size=1, max_size=8), min_size=1, max_size=4).map("-".join)
bodies = st.lists(
    st.one_of(line, st.sampled_from(["# One", "## Two ##", "##", "```", "~~~ text", "- item", "---", ""])),
    max_size=12,
).map("\n".join)
documents = st.builds(
    lambda name, description, body, licence, metadata: SkillDocument(
        name=name, description=description, license=licence.strip(), metadata=metadata
    ).with_body(body),
    names,
    line,
    bodies,
    text,
    st.dictionaries(line, text, max_size=3),
)


def skill(front: str, body: str = "Do it.") -> str:
    return f"---\n{front}\n---\n\n{body}\n"


@given(documents)
@settings(max_examples=150, deadline=None)
def test_a_rendered_document_reads_back_as_itself(document: SkillDocument) -> None:
    assert SkillDocument.parse(document.render()) == document


@given(documents)
@settings(max_examples=40, deadline=None)
def test_the_reference_reads_the_same_values(document: SkillDocument) -> None:
    fields, _ = reference_parse(document.render())
    assert (fields["name"], fields["description"]) == (document.name, document.description)
    assert fields.get("metadata", {}) == dict(document.metadata)
    assert fields.get("license", "") == document.license


@given(documents)
@settings(max_examples=100, deadline=None)
def test_sections_make_up_the_body(document: SkillDocument) -> None:
    again = document.with_sections(document.sections)
    assert again.sections == document.sections
    assert "".join(again.body.split()).replace("#", "") == "".join(document.body.split()).replace("#", "")


def test_the_seed_skill_is_valid_and_short(tmp_path: Path) -> None:
    document = SkillDocument.load(SEED)
    assert reference_validate(SEED) == []
    assert document.render() == (SEED / "SKILL.md").read_text()
    assert estimate_tokens(document.body) <= 80
    assert reference_validate(export(document, tmp_path)) == []


@pytest.mark.parametrize(
    "front",
    [
        "name: web\ndescription: x\nversion: 1",
        "name: web",
        "description: x",
        "name: Web\ndescription: x",
        "name: -web\ndescription: x",
        "name: we--b\ndescription: x",
        "name: we_b\ndescription: x",
        f"name: {'w' * 65}\ndescription: x",
        "name: web\ndescription: ''",
        f"name: web\ndescription: {'x' * 1025}",
        f"name: web\ndescription: x\ncompatibility: {'x' * 501}",
        "name: other\ndescription: x",
        "name: web\ndescription: it says: broken",
        "name: web\nname: web\ndescription: x",
    ],
)
def test_what_the_reference_refuses_is_refused(front: str, tmp_path: Path) -> None:
    directory = tmp_path / "web"
    directory.mkdir()
    (directory / "SKILL.md").write_text(skill(front))
    assert reference_validate(directory) != []
    with pytest.raises(SkillError, match=r"not a valid SKILL\.md"):
        SkillDocument.load(directory)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("no front matter", "must start with front matter"),
        ("---\nname: web\n", "never closed"),
        (skill("- a\n- b"), "must be a mapping"),
        (skill("name: [web]\ndescription: x"), "'name' must be text"),
        (skill("name: web\ndescription: x\nmetadata: 1"), "'metadata' must map"),
        (skill("name: web\ndescription: x\nmetadata:\n  a: [b]"), "metadata 'a' must be text"),
        (skill("name: &n web\ndescription: *n"), "aliases"),
        (skill("name: web\ndescription: x", "bell \a"), "control characters"),
        (skill("name: web\ndescription: x\nextra: y\nmore: z"), "'extra'.*'more'"),
    ],
)
def test_a_broken_document_says_what_is_wrong(content: str, message: str) -> None:
    with pytest.raises(SkillError, match=message):
        SkillDocument.parse(content)


def test_values_stay_the_text_they_were_written_as() -> None:
    document = SkillDocument.parse(
        skill('name: web\ndescription: x\nmetadata:\n  version: 1.10\n  "on": yes')
    )
    assert dict(document.metadata) == {"version": "1.10", "on": "yes"}


def test_every_value_is_quoted_on_write() -> None:
    written = SkillDocument("web", "Use it: --- always", metadata={"a": "1"}).render()
    header = written.split("---\n")[1]
    assert yaml.safe_load(header) == {
        "name": "web",
        "description": "Use it: --- always",
        "metadata": {"a": "1"},
    }
    assert written.count("---") == 2


def test_headings_in_code_are_no_sections() -> None:
    document = SkillDocument("web", "x").with_body("Intro\n\n# One\n\n```sh\n# comment\n```\n\n## Two\ntext")
    assert [(s.level, s.heading) for s in document.sections] == [(0, ""), (1, "One"), (2, "Two")]
    section = document.section("two")
    assert section is not None
    assert section.text == "text"
    assert document.section("comment") is None


def test_budgets_are_reported_with_numbers() -> None:
    document = SkillDocument("web", "x").with_body("one two three\nfour")
    assert document.problems(budgets=Budgets(max_lines=2, max_tokens=5)) == []
    assert document.problems(budgets=Budgets(max_lines=1)) == ["body is too long: 2 lines, 1 allowed"]
    with pytest.raises(SkillError, match="9 tokens, 3 allowed"):
        document.validate(budgets=Budgets(max_tokens=3, count_tokens=lambda _: 9))


def test_a_missing_skill_names_the_directory(tmp_path: Path) -> None:
    with pytest.raises(SkillError, match=r"SKILL\.md is missing\n.*give the directory"):
        SkillDocument.load(tmp_path)


def test_stamps_do_not_change_the_content_hash() -> None:
    document = SkillDocument.load(SEED)
    stamped = document.stamped(version="v2", run="r1")
    assert stamped.metadata == {"coevo-version": "v2", "coevo-run": "r1"}
    assert stamped.content_hash == document.content_hash
    assert document.with_body("other").content_hash != document.content_hash


def test_export_replaces_only_what_it_knows(tmp_path: Path) -> None:
    first = SkillDocument.load(SEED)
    second = first.with_body("Answer with one action.")
    directory = export(first.stamped(version="v1"), tmp_path)
    assert export(first, tmp_path) == directory
    with pytest.raises(SkillError, match="not a version coevo knows"):
        export(second, tmp_path)
    export(second, tmp_path, known={first.content_hash})
    assert SkillDocument.load(directory) == second
    edited = directory / "SKILL.md"
    edited.write_text(edited.read_text() + "\nA line added by hand.\n")
    before = edited.read_text()
    with pytest.raises(SkillError, match="edited or written elsewhere"):
        export(first, tmp_path, known={first.content_hash, second.content_hash})
    assert edited.read_text() == before


def test_export_leaves_foreign_files_alone(tmp_path: Path) -> None:
    document = SkillDocument.load(SEED)
    directory = export(document, tmp_path)
    (directory / "notes.txt").write_text("mine")
    with pytest.raises(SkillError, match=r"did not write: notes\.txt"):
        export(document, tmp_path)
    assert sorted(path.name for path in directory.iterdir()) == ["SKILL.md", "notes.txt"]


def test_export_never_follows_a_link_out(tmp_path: Path) -> None:
    document = SkillDocument.load(SEED)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    out = tmp_path / "out"
    out.mkdir()
    (out / "web").symlink_to(elsewhere)
    with pytest.raises(SkillError, match="not a directory of its own"):
        export(document, out)
    (out / "web").unlink()
    (out / "web").mkdir()
    (out / "web" / "SKILL.md").symlink_to(elsewhere / "target")
    with pytest.raises(SkillError, match="is a link"):
        export(document, out)
    assert list(elsewhere.iterdir()) == []


def test_a_name_that_is_a_path_is_never_written(tmp_path: Path) -> None:
    for name in ("../web", "a/b", "", ".", "web\n"):
        with pytest.raises(SkillError):
            export(SkillDocument(name, "x"), tmp_path / "inner")
    assert list(tmp_path.iterdir()) == []
