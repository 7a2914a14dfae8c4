"""Merging and applying edits: order-free, idempotent, always valid, within budgets."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.skill import (
    Budgets,
    EditStatus,
    Evidence,
    Op,
    ProposedEdit,
    SkillDocument,
    apply_edits,
    combine,
    merge,
)

BODY = "Answer with one action.\n\n## Rules\n\n- One rule.\n- Two rules.\n\n## Examples\n\npage a\nTask: a\nclick 'A'\n\npage b\nclick 'B'"
DOCUMENT = SkillDocument("web", "Acting on web pages.").with_body(BODY)


def rule(
    text: str, *tasks: str, op: Op = Op.ADD, target: str = "", topic: str = "", score: float = 0.0
) -> ProposedEdit:
    evidence = tuple(Evidence(f"e-{task}", task) for task in tasks)
    return ProposedEdit(op, "Rules", text, target, evidence=evidence, topic=topic, score=score)


lines = st.sampled_from(
    [
        "One rule.",
        "Two rules.",
        "Three rules.",
        "one  RULE",
        "- One rule.",
        "page a",
        "# bad",
        "---",
        "```",
        "<!-- x",
        "a\nb",
        "",
    ]
)
blocks = st.one_of(lines, st.text(alphabet="ab#-`\n ", max_size=12), st.just("page b\nclick 'B'"))
edits = st.builds(
    lambda op, section, text, target, kind, tasks, topic, score: ProposedEdit(
        op,
        section,
        "" if op is Op.DELETE else text,
        "" if op is Op.ADD else target,
        kind,
        tuple(Evidence(f"{task}-{n}", task) for n, task in enumerate(tasks)),
        topic,
        score=score,
    ),
    st.sampled_from(Op),
    st.sampled_from(["Rules", "rules", "Examples", "", "New part", "# no"]),
    blocks,
    blocks,
    st.sampled_from(["rule", "example"]),
    st.lists(st.sampled_from(["t1", "t2", "t3"]), max_size=3),
    st.sampled_from(["", "", "address"]),
    st.sampled_from([0.0, 0.5]),
)
many = st.lists(edits, max_size=8)


@given(many, st.randoms(use_true_random=False))
@settings(max_examples=80, deadline=None)
def test_merge_does_not_depend_on_order(proposed: list[ProposedEdit], random: random.Random) -> None:
    shuffled = proposed[:]
    random.shuffle(shuffled)
    assert merge(shuffled) == merge(proposed)


@given(many, many)
@settings(max_examples=80, deadline=None)
def test_combining_in_levels_is_combining_at_once(one: list[ProposedEdit], two: list[ProposedEdit]) -> None:
    assert combine([*combine(one), *combine(two)]) == combine([*one, *two])
    assert combine(combine(one)) == combine(one)


@given(many)
@settings(max_examples=80, deadline=None)
def test_merge_is_idempotent_and_loses_nothing(proposed: list[ProposedEdit]) -> None:
    result = merge(proposed)
    assert merge(result.edits).edits == result.edits
    kept = {edit.key for edit in result.edits} | {edit.key for edit, _ in result.aside}
    assert kept == {edit.key for edit in proposed}
    assert len(result.edits) + len(result.aside) + result.duplicates == len(proposed)
    assert all(why for _, why in result.aside)


@given(many, st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_apply_is_order_free_idempotent_valid_and_within_budgets(
    proposed: list[ProposedEdit], random: random.Random
) -> None:
    budgets = Budgets(max_lines=18, max_tokens=90)
    result = apply_edits(DOCUMENT, proposed, budgets)
    assert result.document.problems(budgets=budgets) == []
    assert SkillDocument.parse(result.document.render()) == result.document
    shuffled = proposed[:]
    random.shuffle(shuffled)
    assert apply_edits(DOCUMENT, shuffled, budgets).document == result.document
    assert apply_edits(result.document, proposed, budgets).document == result.document
    assert {status.edit.key for status in result.statuses} == {edit.key for edit in proposed}
    assert all(status.reason for status in result.statuses if status.status is not EditStatus.APPLIED)
    if not result.applied:
        assert result.document is DOCUMENT


def test_support_counts_tasks_not_episodes() -> None:
    same = [rule("Be brief.", "t1"), rule("be  brief", "t1"), rule("- Be brief.", "t2")]
    result = merge(same)
    assert [(edit.support, len(edit.evidence)) for edit in result.edits] == [(2, 2)]
    assert result.duplicates == 2


def test_one_offs_wait_aside_until_a_second_task_agrees() -> None:
    first = merge([rule("Be brief.", "t1")])
    assert first.edits == ()
    assert "2 distinct tasks needed" in first.aside[0].why
    assert len(merge([first.aside[0].edit, rule("Be brief.", "t2")]).edits) == 1


def test_an_example_is_evidence_in_itself() -> None:
    example = ProposedEdit(
        Op.ADD, "Examples", "p\nTask: x\nclick 'A'", kind="example", evidence=(Evidence("e", "t"),)
    )
    assert merge([example]).edits == (example,)


def test_a_contradiction_goes_to_the_better_supported() -> None:
    weak = rule("Use numbers.", "t1", "t2", topic="address", score=9.0)
    strong = rule("Use names.", "t1", "t2", "t3", topic="address")
    result = merge([weak, strong])
    assert result.edits == (strong,)
    assert "contradicts" in result.aside[0].why
    assert "3 tasks" in result.aside[0].why


def test_two_changes_of_the_same_lines_contradict() -> None:
    one = rule("A.", "t1", "t2", "t3", op=Op.REPLACE, target="One rule.")
    two = rule("", "t1", "t2", op=Op.DELETE, target="- one rule")
    assert merge([one, two]).edits == (one,)


def test_what_was_turned_down_is_not_proposed_again() -> None:
    edit = rule("Be brief.", "t1", "t2")
    result = merge([rule("- BE   brief.", "t1", "t2", "t3")], rejected_hashes={edit.key})
    assert result.edits == ()
    assert result.aside[0].why == "turned down before"


def test_add_appends_to_its_section_or_makes_it() -> None:
    result = apply_edits(DOCUMENT, [rule("Three rules.", "t1"), ProposedEdit(Op.ADD, "Notes", "A note.")])
    rules, notes = result.document.section("Rules"), result.document.section("Notes")
    assert rules is not None
    assert notes is not None
    assert rules.text == "- One rule.\n- Two rules.\n- Three rules."
    assert notes.text == "- A note."
    assert result.document.body.startswith("Answer with one action.\n\n## Rules")


def test_replace_and_delete_take_exactly_their_lines() -> None:
    replaced = apply_edits(DOCUMENT, [rule("Better.", op=Op.REPLACE, target="One rule.")]).document
    assert "## Rules\n\n- Better.\n- Two rules.\n\n## Examples" in replaced.body
    example = ProposedEdit(Op.DELETE, "Examples", target="page a\nTask: a\nclick 'A'", kind="example")
    assert apply_edits(DOCUMENT, [example]).document.body.endswith("## Examples\n\npage b\nclick 'B'")


def test_an_emptied_section_goes_away() -> None:
    gone = [rule("", op=Op.DELETE, target=text) for text in ("One rule.", "Two rules.")]
    assert apply_edits(DOCUMENT, gone).document.section("Rules") is None


@pytest.mark.parametrize(
    ("edit", "status", "reason"),
    [
        (rule("One rule."), EditStatus.DUPLICATE, "already has this text"),
        (rule("", op=Op.DELETE, target="No such rule."), EditStatus.NOT_FOUND, "no such text"),
        (rule("", op=Op.DELETE, target="One rul"), EditStatus.NOT_FOUND, "no such text"),
        (
            ProposedEdit(Op.DELETE, "Nowhere", target="One rule."),
            EditStatus.NOT_FOUND,
            "no section 'Nowhere'",
        ),
        (rule("x " * 2000), EditStatus.OVER_BUDGET, "tokens, 200 allowed"),
        (rule("# Injected"), EditStatus.REFUSED, "heading"),
        (rule("fine\n---\nname: evil"), EditStatus.REFUSED, "line of dashes"),
        (rule("```\nopen"), EditStatus.REFUSED, "open code fence"),
        (rule("hide <!-- the rest"), EditStatus.REFUSED, "comment"),
        (rule("bell \a"), EditStatus.REFUSED, "control characters"),
        (rule(""), EditStatus.REFUSED, "no text"),
        (ProposedEdit(Op.ADD, "../../etc\n# x", "text"), EditStatus.REFUSED, "heading of at most"),
    ],
)
def test_every_edit_has_a_status_and_the_document_survives(
    edit: ProposedEdit, status: EditStatus, reason: str
) -> None:
    result = apply_edits(DOCUMENT, [edit], Budgets(max_tokens=200))
    assert result.statuses[0].status is status
    assert reason in result.statuses[0].reason
    assert result.document == DOCUMENT


def test_an_ambiguous_target_is_not_guessed() -> None:
    twice = DOCUMENT.with_body("## Rules\n\n- Same.\n\nand\n\n- Same.")
    result = apply_edits(twice, [rule("", op=Op.DELETE, target="Same.")])
    assert result.statuses[0].status is EditStatus.NOT_FOUND
    assert "2 times" in result.statuses[0].reason


def test_budget_goes_to_the_best_supported() -> None:
    weak, strong = rule("Weak words here.", "t1"), rule("Strong words here.", "t1", "t2")
    lines = len(DOCUMENT.body.splitlines())
    result = apply_edits(DOCUMENT, [weak, strong], Budgets(max_lines=lines + 1))
    assert result.applied == (strong,)
    assert result.statuses[-1].status is EditStatus.OVER_BUDGET


def test_an_overlong_document_only_shrinks() -> None:
    budgets = Budgets(max_lines=3)
    result = apply_edits(DOCUMENT, [rule("More."), rule("", op=Op.DELETE, target="One rule.")], budgets)
    assert [status.status for status in result.statuses] == [EditStatus.APPLIED, EditStatus.OVER_BUDGET]
