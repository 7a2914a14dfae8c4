"""What every table and column of the database means.

`TABLES` is the single source for `coevo db schema` and for the generated page in the documentation; a test holds it
against the tables the migrations really create.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class TableDoc:
    """What one table or view holds, and what each of its columns means."""

    about: str
    columns: Mapping[str, str]


_RUN = "The run it belongs to."
_GENERATION = "Generation within the run, from 0."
_EPISODE = "The episode it belongs to."
_NODE = "Name of the graph node that asked."
_PATH = "Where that node sits: names of the enclosing subgraphs and the node, joined by `/`."
_CREATED = "When the row was made (UTC, ISO 8601)."

TABLES: dict[str, TableDoc] = {
    "runs": TableDoc(
        "One row a run of an experiment file (or of an evaluation).",
        {
            "id": "Id of the run.",
            "name": "Name from the experiment file.",
            "status": "`running`, `finished`, `stopped` (by a person) or `failed`.",
            "seed": "Seed everything else is derived from.",
            "config": "JSON: the whole experiment file, with overrides and defaults filled in.",
            "provenance": "JSON: git commit, versions, host facts, and the engine's description of itself.",
            "error": "Why the run failed, if it did.",
            "created_at": _CREATED,
            "finished_at": "When it ended (UTC, ISO 8601).",
        },
    ),
    "generations": TableDoc(
        "One row a generation: what was held fixed, and how the population did.",
        {
            "run": _RUN,
            "generation": _GENERATION,
            "sigma": "Noise scale σ of this generation.",
            "alpha": "Step size α of this generation.",
            "weights_step": "Updates behind the centre weights when it began.",
            "skill_version": "Skill version every member used.",
            "tasks": "JSON: ids of the tasks all members faced.",
            "episodes": "Episodes run, retries included.",
            "valid": "Episodes that count.",
            "invalid": "Episodes that stayed invalid after their retries.",
            "mean_reward": "Mean reward of the valid episodes.",
            "std_reward": "Population standard deviation of the members' mean rewards.",
            "best_reward": "Best mean reward of a member.",
            "success_rate": "Share of valid episodes that succeeded.",
            "prompt_tokens": "Prompt tokens of all its calls.",
            "completion_tokens": "Completion tokens of all its calls.",
            "seconds": "Wall-clock seconds from start to update.",
            "started_at": "When it began (UTC, ISO 8601).",
            "finished_at": "When its update was done (UTC, ISO 8601).",
        },
    ),
    "members": TableDoc(
        "One row a member of the population, each generation.",
        {
            "run": _RUN,
            "generation": _GENERATION,
            "member": "Index in the population, from 0.",
            "seed": "Seed of its noise ε.",
            "sigma": "Its σ; negative for the mirrored half of a pair.",
            "reward": "Mean reward of its valid episodes; null if it had none.",
            "coefficient": "Shaped reward z that entered the update; null if it did not count.",
            "valid": "Valid episodes.",
            "invalid": "Invalid episodes.",
        },
    ),
    "episodes": TableDoc(
        "One row an attempt at one task. `finished` rows are complete: their steps and calls were committed before.",
        {
            "id": "Id, a hash of what defines the episode: the same plan gives the same id.",
            "run": _RUN,
            "phase": "`rollout`, `gate`, `eval`, or `gepa` (GEPA trying its candidates on train tasks).",
            "generation": _GENERATION,
            "member": "Member of the population; null for the centre weights.",
            "arm": "Label of what is compared in `gate` and `eval`, e.g. `base+seed`.",
            "task": "Id of the task.",
            "task_group": "Kind of task, for reports.",
            "goal": "The goal in words, as the agent was told it.",
            "seed": "Seed of the world and of sampling.",
            "attempt": "0, or the number of the retry after invalid attempts.",
            "skill_version": "Skill version the agent read.",
            "weights_step": "Updates behind the weights that spoke.",
            "perturbation_seed": "Seed of the noise on the weights; null for the centre.",
            "perturbation_sigma": "σ of that noise; negative for a mirrored member.",
            "status": "`running`, `finished` or `interrupted` (by a stop; it is run again).",
            "outcome": "`success`, `failure` or `invalid` (the world broke; never scored as zero).",
            "reward": "Reward, in [0, 1] unless the task says otherwise; null when invalid.",
            "components": "JSON: named parts of the reward.",
            "category": "Kind of failure, e.g. `parse_error` or `turn_limit`; null on success.",
            "error": "Text of the error behind `category`, if there was one.",
            "turns": "Actions taken.",
            "prompt_tokens": "Prompt tokens of all its calls.",
            "completion_tokens": "Completion tokens of all its calls.",
            "seconds": "Wall-clock seconds, waiting for a free environment not included.",
            "started_at": "When it began (UTC, ISO 8601).",
            "finished_at": "When it ended (UTC, ISO 8601).",
            "scorer": "Who gave the reward, with its version; null where the world has only one way.",
        },
    ),
    "steps": TableDoc(
        "One row an action and what the world answered. Read it through the view `step_text`.",
        {
            "episode": _EPISODE,
            "ord": "0 is the reset; actions count from 1.",
            "action": "What the agent said it does; null for the reset.",
            "performed": "What the environment did, as a plain action; null where that is the same text, nothing, or unknown.",
            "observation": "Hash of the text the agent saw afterwards; null if it was empty.",
            "error": "Why the action could not be parsed or failed; null if it worked.",
            "reward": "Reward so far.",
            "done": "1 when the task was over.",
            "screenshot": "Hash of the picture of the page, if one was kept.",
        },
    ),
    "calls": TableDoc(
        "One row a model call, written when it happens. Read it through the view `call_text`.",
        {
            "episode": _EPISODE,
            "ord": "Number of the call in its episode, from 0.",
            "id": "`episode.ord`, computed.",
            "node": _NODE,
            "path": _PATH,
            "prompt": "Hash of the last message of the prompt; its parents are the messages before.",
            "response": "Hash of the answer, a child of the prompt; null if the call failed.",
            "tools": "Hash of the JSON list of tools offered; null if none.",
            "seed": "Sampling seed of this call.",
            "prompt_tokens": "Tokens of the prompt, after shortening.",
            "completion_tokens": "Tokens of the answer.",
            "cached_tokens": "Prompt tokens that were not computed again.",
            "truncated_tokens": "Tokens cut from the prompt to fit the context.",
            "finish_reason": "`stop`, or `length` when the answer was cut off.",
            "weights_step": "Updates behind the weights that answered.",
            "perturbation_seed": "Seed of the noise on them; null for the centre.",
            "perturbation_sigma": "σ of that noise.",
            "seconds": "Seconds from asking to answer, waiting included.",
            "error": "Why the engine did not answer; null if it did.",
        },
    ),
    "tool_calls": TableDoc(
        "One row a LangChain tool run inside the graph.",
        {
            "episode": _EPISODE,
            "ord": "Number of the tool call in its episode, from 0.",
            "after_call": "`ord` of the last model call before it; null if there was none.",
            "node": _NODE,
            "path": _PATH,
            "tool": "Name of the tool.",
            "arguments": "JSON or text it was given.",
            "output": "Hash of the text it returned; null if it raised or returned nothing.",
            "error": "What it raised; null if it returned.",
            "seconds": "Seconds it took.",
        },
    ),
    "messages": TableDoc(
        "A tree of chat messages. Read it through the view `message_text`.",
        {
            "hash": "BLAKE2b over (parent, role, content, extra), 24 hexadecimal digits.",
            "parent": "Hash of the message before it; null for the first.",
            "role": "`system`, `user`, `assistant` or `tool`.",
            "content": "The text, or, where `text` is set, what stands around that text.",
            "text": "Hash of a stored text inside the message; null when `content` is all of it.",
            "at": "Characters of `content` that come before that text.",
            "extra": "JSON: the other fields of the message (tool calls, name, …); null if none.",
        },
    ),
    "texts": TableDoc(
        "Every text of some length, once.",
        {
            "id": "Row number.",
            "hash": "BLAKE2b of the text, 24 hexadecimal digits.",
            "text": "The text.",
        },
    ),
    "blobs": TableDoc(
        "Screenshots and other bytes, once.",
        {
            "id": "Row number.",
            "hash": "BLAKE2b of the bytes, 24 hexadecimal digits.",
            "media_type": "For example `image/png`.",
            "data": "The bytes.",
        },
    ),
    "skills": TableDoc(
        "One row a skill that evolves.",
        {"name": "Name of the skill.", "created_at": _CREATED, "current_version": "Version in use now."},
    ),
    "skill_versions": TableDoc(
        "Every version of a skill document, those that were turned down included.",
        {
            "id": "Id of the version.",
            "skill": "The skill it is a version of.",
            "parent": "Version it was made from; null for a seed.",
            "status": "`seed`, `proposed`, `accepted` or `rejected`.",
            "author": "Who wrote it: a person, or the analyst's name.",
            "text": "The whole SKILL.md.",
            "content_hash": "Hash of the text; the same text is not tried twice.",
            "run": _RUN,
            "generation": _GENERATION,
            "created_at": _CREATED,
            "reason": "Why it was accepted or rejected.",
            "gain": "Mean paired difference in reward, candidate minus current, at the gate.",
            "gain_lower": "Lower end of its confidence interval.",
            "gain_upper": "Upper end of its confidence interval.",
            "pairs": "Pairs of episodes compared.",
            "files": "JSON: text of its reference files by path; null if it has none.",
        },
    ),
    "edits": TableDoc(
        "One row a proposed edit of a skill.",
        {
            "id": "Id of the edit.",
            "skill_version": "Version it led to, or would have led to.",
            "op": "What it does, e.g. `add`, `replace`, `delete`.",
            "section": "Section of the document it changes.",
            "text": "The text it adds.",
            "support": "Distinct tasks behind it.",
            "status": "What became of it, e.g. `applied`, `duplicate`, `over_budget`, `not_found`.",
            "reason": "Why.",
            "analyst": "Who proposed it.",
            "content_hash": "Hash of (op, section, text, target), to recognise it when proposed again.",
            "target": "The lines it replaces or deletes.",
        },
    ),
    "distillations": TableDoc(
        "One row a look at the episodes: what the analyst read, and what became of the proposals that led to no candidate.",
        {
            "run": _RUN,
            "generation": _GENERATION,
            "skill_version": "Version the agents read, and that was to be improved.",
            "analyst": "Who read them.",
            "episodes": "Episodes looked at.",
            "pairs": "Contrast pairs among them: same task, seed and skill, one success, one failure.",
            "successes": "Single successes used.",
            "failures": "Single failures used.",
            "left_out": "JSON: pairs (episode, why) of those that were not used.",
            "aside": "JSON: edits kept aside or refused, each with its reason, evidence and calls.",
            "duplicates": "Proposals that said the same as another.",
            "candidates": "Candidates composed; the best of them went to the gate.",
            "report": "What the analyst says of its own work.",
            "created_at": _CREATED,
        },
    ),
    "author_calls": TableDoc(
        "One row a call of a language model that writes skills. An answered key is never paid for again.",
        {
            "key": "Hash of the author and of everything it was told.",
            "attempt": "0, or the number of the retry after calls that failed.",
            "purpose": "`contrast`, `error`, `success`, `merge` or `gepa`.",
            "author": "The model.",
            "messages": "JSON: what it was told.",
            "reply": "What it answered.",
            "prompt_tokens": "Tokens of the messages; null where the model does not tell.",
            "completion_tokens": "Tokens of the reply; null where the model does not tell.",
            "seconds": "Wall-clock seconds.",
            "error": "Why there is no answer.",
            "created_at": _CREATED,
        },
    ),
    "edit_calls": TableDoc(
        "Which calls an edit comes from.",
        {"edit": "The edit.", "call": "Key of an author's call."},
    ),
    "edit_evidence": TableDoc(
        "Which episodes an edit rests on.",
        {"edit": "The edit.", "episode": "An episode behind it."},
    ),
    "gate_results": TableDoc(
        "One row a pair of episodes that decided about a skill version.",
        {
            "skill_version": "The candidate.",
            "against": "The version in use.",
            "task": "Id of the task.",
            "seed": "Seed both sides shared.",
            "run": _RUN,
            "generation": _GENERATION,
            "reward_current": "Reward under the version in use; null when invalid.",
            "reward_candidate": "Reward under the candidate; null when invalid.",
        },
    ),
    "evaluations": TableDoc(
        "One row an arm measured on a split.",
        {
            "run": _RUN,
            "generation": _GENERATION,
            "arm": "What was measured, e.g. `base+seed` or `evolved+evolved`.",
            "split": "`train`, `dev` or `test`.",
            "weights_step": "Updates behind the weights.",
            "skill_version": "Skill version.",
            "episodes": "Valid episodes.",
            "invalid": "Episodes left out because the world broke.",
            "mean": "Mean reward.",
            "lower": "Lower end of its confidence interval.",
            "upper": "Upper end of its confidence interval.",
            "success_rate": "Share of valid episodes that succeeded.",
            "seconds": "Wall-clock seconds.",
            "created_at": _CREATED,
        },
    ),
    "heuristics": TableDoc(
        "One row a heuristic written in a search.",
        {
            "id": "Id of the heuristic.",
            "run": _RUN,
            "generation": _GENERATION,
            "problem": "Name of the design problem.",
            "operator": "Operator that made it, e.g. `e1` or `m2`.",
            "parents": "JSON: ids of its parents.",
            "episode": "The episode that wrote it.",
            "thought": "The idea in words.",
            "code": "The program.",
            "objective": "Mean objective on the training instances, smaller is better; null when it is not valid.",
            "objectives": "JSON: objective on each instance.",
            "status": "`ok`, or how it failed.",
            "error": "Text of the failure.",
            "seconds": "Seconds its evaluation took.",
            "created_at": _CREATED,
            "turn": "Turn of the search that made it, from 0.",
            "number": "Its place among the children of the turn, from 0.",
            "member": "Index of the perturbation that wrote it; null for the centre weights.",
            "reward": "Reward of that perturbation.",
            "output": "What the program printed, cut.",
            "cpu_s": "Processor seconds the program took.",
        },
    ),
    "search_turns": TableDoc(
        "One row a turn of a search over heuristics: one operator applied, and who survived.",
        {
            "run": _RUN,
            "turn": "Number of the turn in its run, from 0.",
            "generation": "Generation of the search; 0 is its start.",
            "operator": "`start`, `i1`, `e1`, `e2`, `m1`, `m2` or `m3`.",
            "children": "Children it made.",
            "valid": "Those that are valid heuristics.",
            "invalid": "Those whose episode stayed invalid (the world broke); they count as candidates, not as failures.",
            "kept": "Those that survived.",
            "best": "Best objective in the population after it.",
            "population": "JSON: ids of the population after it, best first.",
            "step": "What happened to the weights, in words; null if the turn does not move them.",
            "sigma": "σ of its perturbations; null without.",
            "skill_version": "Skill version its children were asked with.",
            "seconds": "Wall-clock seconds.",
            "created_at": _CREATED,
        },
    ),
    "heuristic_scores": TableDoc(
        "Heuristics judged on instances that the search did not see.",
        {
            "heuristic": "The heuristic.",
            "split": "`val` (to pick the best of the best) or `test`.",
            "objective": "Mean objective; null when it is not valid there.",
            "objectives": "JSON: objective on each instance.",
            "gap": "How much worse than the reference value, as a share of it.",
            "status": "`ok`, or how it failed.",
            "error": "Text of the failure.",
            "seconds": "Seconds the evaluation took.",
            "created_at": _CREATED,
        },
    ),
    "es_steps": TableDoc(
        "One row a weight update, the skipped ones included. The applied rows rebuild the weights.",
        {
            "run": _RUN,
            "step": "Number of the attempt in its run, from 0.",
            "generation": _GENERATION,
            "status": "`applied` or `skipped`.",
            "reason": "Why it was skipped.",
            "seeds": "JSON: seeds of the noise.",
            "coefficients": "JSON: shaped rewards, one a seed.",
            "population": "Members that count (G).",
            "alpha": "Step size α.",
            "sigma": "σ of the generation.",
            "noise": "JSON: family, rank, scale and tensors of the noise.",
            "decay": "Pull towards the base checkpoint.",
            "weights_step": "Applied updates in all, this one included.",
            "step_norm": "‖step‖ over all moved coordinates.",
            "drift_norm": "‖θ − θ₀‖ afterwards.",
            "share_under_sigma": "Share of moved coordinates with |θ − θ₀| below σ.",
            "checksum": "Checksum of the centre weights afterwards.",
            "seconds": "Seconds the update took.",
            "created_at": _CREATED,
        },
    ),
    "message_text": TableDoc(
        "View: messages with their whole text.",
        {
            "hash": "As in `messages`.",
            "parent": "As in `messages`.",
            "role": "As in `messages`.",
            "content": "The whole text.",
            "extra": "As in `messages`.",
        },
    ),
    "step_text": TableDoc(
        "View: steps with what the agent saw.",
        {
            "episode": _EPISODE,
            "ord": "As in `steps`.",
            "action": "As in `steps`.",
            "performed": "As in `steps`.",
            "observation": "The text the agent saw afterwards.",
            "error": "As in `steps`.",
            "reward": "As in `steps`.",
            "done": "As in `steps`.",
            "screenshot": "As in `steps`.",
        },
    ),
    "call_text": TableDoc(
        "View: model calls with the last message of the prompt and the answer.",
        {
            "id": "As in `calls`.",
            "episode": _EPISODE,
            "ord": "As in `calls`.",
            "node": _NODE,
            "path": _PATH,
            "last_message": "Text of the last message of the prompt.",
            "response": "Text of the answer.",
            "prompt_tokens": "As in `calls`.",
            "completion_tokens": "As in `calls`.",
            "finish_reason": "As in `calls`.",
            "seconds": "As in `calls`.",
            "error": "As in `calls`.",
        },
    ),
}


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """One column: its SQL type, whether it is part of the primary key, and what it means."""

    name: str
    type: str
    key: bool
    about: str


@dataclass(frozen=True, slots=True)
class TableDescription:
    """One table or view (`kind`) with its columns, in the order of the file."""

    name: str
    kind: str
    about: str
    columns: tuple[ColumnDescription, ...]


@cache
def describe_schema() -> tuple[TableDescription, ...]:
    """Every table and view of the current schema, as created by the migrations, with its description."""
    from sqlite_utils import Database

    from coevo.store.migrations import MIGRATIONS

    connection = sqlite3.connect(":memory:")
    try:
        MIGRATIONS.apply(Database(connection))
        kinds = dict(
            connection.execute("SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view')")
        )
        described = []
        for name, doc in TABLES.items():
            columns = tuple(
                ColumnDescription(column, type_, bool(key), doc.columns.get(column, ""))
                for _, column, type_, _, _, key, _ in connection.execute(f"PRAGMA table_xinfo({name})")
            )
            described.append(TableDescription(name, kinds.get(name, "missing"), doc.about, columns))
        return tuple(described)
    finally:
        connection.close()


def schema_markdown() -> str:
    """The documentation page about the database, generated: `docs/schema.md` holds exactly this text."""
    lines = [
        "# The database",
        "",
        "Everything a run does is in one SQLite file (WAL mode). Open it with any SQLite tool while the run goes on.",
        "This page is generated from `coevo/store/schema.py`; `coevo db schema` prints the same.",
        "",
    ]
    for table in describe_schema():
        lines += [f"## {table.name}", "", table.about, "", "| column | type | meaning |", "|---|---|---|"]
        for column in table.columns:
            name = f"**`{column.name}`**" if column.key else f"`{column.name}`"
            about = column.about.replace("|", "\\|")
            lines.append(f"| {name} | {column.type.lower()} | {about} |")
        lines.append("")
    lines += ["Columns in bold are the primary key.", ""]
    return "\n".join(lines)
