"""The shape of the database, one migration a change. Applied migrations are never edited, only followed.

Choices that are not obvious:

* Every text of some length lives once, in `texts`, whoever shows it: a page an agent saw, the prompt it was put
  into, the tool message that repeats it. Members of a population meet the same pages, so they share the rows.
* `messages` forms a tree: the key is a hash over (parent, role, content, extra), so two calls with the same history
  share it. A message that *contains* a stored text keeps only what stands around it (`content`, `at`).
* `texts` and `blobs` have an integer rowid besides their hash. Long rows in a `WITHOUT ROWID` table spill to overflow
  pages early and waste about a third of the space.
* The small, often-written tables (`steps`, `calls`, `messages`) are `WITHOUT ROWID`: their key is the table.
* Foreign keys are declared, for people and tools that read the file, and not enforced: rows arrive in the order things
  happen, which is not always parents first.
"""

from __future__ import annotations

from sqlite_utils import Database, Migrations

MIGRATIONS = Migrations("coevo")

_TABLES = """
CREATE TABLE runs (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'finished', 'stopped', 'failed')),
    seed INTEGER,
    config TEXT,
    provenance TEXT,
    error TEXT,
    created_at TEXT,
    finished_at TEXT
);

CREATE TABLE generations (
    run TEXT NOT NULL REFERENCES runs(id),
    generation INTEGER NOT NULL,
    sigma REAL,
    alpha REAL,
    weights_step INTEGER,
    skill_version TEXT REFERENCES skill_versions(id),
    tasks TEXT,
    episodes INTEGER,
    valid INTEGER,
    invalid INTEGER,
    mean_reward REAL,
    std_reward REAL,
    best_reward REAL,
    success_rate REAL,
    prompt_tokens INTEGER,
    completion_tokens INTEGER,
    seconds REAL,
    started_at TEXT,
    finished_at TEXT,
    PRIMARY KEY (run, generation)
) WITHOUT ROWID;

CREATE TABLE members (
    run TEXT NOT NULL REFERENCES runs(id),
    generation INTEGER NOT NULL,
    member INTEGER NOT NULL,
    seed INTEGER,
    sigma REAL,
    reward REAL,
    coefficient REAL,
    valid INTEGER,
    invalid INTEGER,
    PRIMARY KEY (run, generation, member)
) WITHOUT ROWID;

CREATE TABLE episodes (
    id TEXT PRIMARY KEY NOT NULL,
    run TEXT NOT NULL REFERENCES runs(id),
    phase TEXT NOT NULL,
    generation INTEGER,
    member INTEGER,
    arm TEXT,
    task TEXT NOT NULL,
    task_group TEXT,
    goal TEXT,
    seed INTEGER,
    attempt INTEGER NOT NULL DEFAULT 0,
    skill_version TEXT REFERENCES skill_versions(id),
    weights_step INTEGER,
    perturbation_seed INTEGER,
    perturbation_sigma REAL,
    status TEXT NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'finished', 'interrupted')),
    outcome TEXT CHECK (outcome IN ('success', 'failure', 'invalid')),
    reward REAL,
    components TEXT,
    category TEXT,
    error TEXT,
    turns INTEGER,
    prompt_tokens INTEGER,
    completion_tokens INTEGER,
    seconds REAL,
    started_at TEXT,
    finished_at TEXT
);
CREATE INDEX episodes_run ON episodes (run, phase, generation);
CREATE INDEX episodes_task ON episodes (task);

CREATE TABLE steps (
    episode TEXT NOT NULL REFERENCES episodes(id),
    ord INTEGER NOT NULL,
    action TEXT,
    performed TEXT,
    observation TEXT REFERENCES texts(hash),
    error TEXT,
    reward REAL,
    done INTEGER,
    screenshot TEXT REFERENCES blobs(hash),
    PRIMARY KEY (episode, ord)
) WITHOUT ROWID;

CREATE TABLE calls (
    episode TEXT NOT NULL REFERENCES episodes(id),
    ord INTEGER NOT NULL,
    id TEXT GENERATED ALWAYS AS (episode || '.' || ord) VIRTUAL,
    node TEXT,
    path TEXT,
    prompt TEXT REFERENCES messages(hash),
    response TEXT REFERENCES messages(hash),
    tools TEXT REFERENCES texts(hash),
    seed INTEGER,
    prompt_tokens INTEGER,
    completion_tokens INTEGER,
    cached_tokens INTEGER,
    truncated_tokens INTEGER,
    finish_reason TEXT,
    weights_step INTEGER,
    perturbation_seed INTEGER,
    perturbation_sigma REAL,
    seconds REAL,
    error TEXT,
    PRIMARY KEY (episode, ord)
) WITHOUT ROWID;

CREATE TABLE tool_calls (
    episode TEXT NOT NULL REFERENCES episodes(id),
    ord INTEGER NOT NULL,
    after_call INTEGER,
    node TEXT,
    path TEXT,
    tool TEXT,
    arguments TEXT,
    output TEXT REFERENCES texts(hash),
    error TEXT,
    seconds REAL,
    PRIMARY KEY (episode, ord)
) WITHOUT ROWID;

CREATE TABLE messages (
    hash TEXT PRIMARY KEY NOT NULL,
    parent TEXT REFERENCES messages(hash),
    role TEXT NOT NULL,
    content TEXT,
    text TEXT REFERENCES texts(hash),
    at INTEGER,
    extra TEXT
) WITHOUT ROWID;

CREATE TABLE texts (
    id INTEGER PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    text TEXT NOT NULL
);

CREATE TABLE blobs (
    id INTEGER PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    media_type TEXT NOT NULL,
    data BLOB NOT NULL
);

CREATE TABLE skills (
    name TEXT PRIMARY KEY NOT NULL,
    created_at TEXT,
    current_version TEXT REFERENCES skill_versions(id)
);

CREATE TABLE skill_versions (
    id TEXT PRIMARY KEY NOT NULL,
    skill TEXT NOT NULL REFERENCES skills(name),
    parent TEXT REFERENCES skill_versions(id),
    status TEXT NOT NULL CHECK (status IN ('seed', 'proposed', 'accepted', 'rejected')),
    author TEXT,
    text TEXT,
    content_hash TEXT,
    run TEXT REFERENCES runs(id),
    generation INTEGER,
    created_at TEXT,
    reason TEXT,
    gain REAL,
    gain_lower REAL,
    gain_upper REAL,
    pairs INTEGER
);
CREATE INDEX skill_versions_skill ON skill_versions (skill, status);
CREATE INDEX skill_versions_run ON skill_versions (run, generation);

CREATE TABLE edits (
    id TEXT PRIMARY KEY NOT NULL,
    skill_version TEXT NOT NULL REFERENCES skill_versions(id),
    op TEXT NOT NULL,
    section TEXT,
    text TEXT,
    support INTEGER,
    status TEXT,
    reason TEXT,
    analyst TEXT,
    content_hash TEXT
);
CREATE INDEX edits_skill_version ON edits (skill_version);

CREATE TABLE edit_evidence (
    edit TEXT NOT NULL REFERENCES edits(id),
    episode TEXT NOT NULL REFERENCES episodes(id),
    PRIMARY KEY (edit, episode)
) WITHOUT ROWID;
CREATE INDEX edit_evidence_episode ON edit_evidence (episode);

CREATE TABLE gate_results (
    skill_version TEXT NOT NULL REFERENCES skill_versions(id),
    against TEXT NOT NULL REFERENCES skill_versions(id),
    task TEXT NOT NULL,
    seed INTEGER NOT NULL,
    run TEXT REFERENCES runs(id),
    generation INTEGER,
    reward_current REAL,
    reward_candidate REAL,
    PRIMARY KEY (skill_version, against, task, seed)
) WITHOUT ROWID;

CREATE TABLE evaluations (
    run TEXT NOT NULL REFERENCES runs(id),
    generation INTEGER NOT NULL,
    arm TEXT NOT NULL,
    split TEXT NOT NULL,
    weights_step INTEGER,
    skill_version TEXT REFERENCES skill_versions(id),
    episodes INTEGER,
    invalid INTEGER,
    mean REAL,
    lower REAL,
    upper REAL,
    success_rate REAL,
    seconds REAL,
    created_at TEXT,
    PRIMARY KEY (run, generation, arm, split)
) WITHOUT ROWID;

CREATE TABLE heuristics (
    id TEXT PRIMARY KEY NOT NULL,
    run TEXT NOT NULL REFERENCES runs(id),
    generation INTEGER,
    problem TEXT,
    operator TEXT,
    parents TEXT,
    episode TEXT REFERENCES episodes(id),
    thought TEXT,
    code TEXT,
    objective REAL,
    objectives TEXT,
    status TEXT,
    error TEXT,
    seconds REAL,
    created_at TEXT
);
CREATE INDEX heuristics_run ON heuristics (run, generation);

CREATE TABLE es_steps (
    run TEXT NOT NULL REFERENCES runs(id),
    step INTEGER NOT NULL,
    generation INTEGER,
    status TEXT NOT NULL CHECK (status IN ('applied', 'skipped')),
    reason TEXT,
    seeds TEXT,
    coefficients TEXT,
    population INTEGER,
    alpha REAL,
    sigma REAL,
    noise TEXT,
    decay REAL,
    weights_step INTEGER,
    step_norm REAL,
    drift_norm REAL,
    share_under_sigma REAL,
    checksum TEXT,
    seconds REAL,
    created_at TEXT,
    PRIMARY KEY (run, step)
) WITHOUT ROWID;
"""

# Views put the shared texts back where they were shown, for people who query by hand.
_VIEWS = """
CREATE VIEW message_text AS
SELECT m.hash, m.parent, m.role,
       CASE WHEN m.text IS NULL THEN m.content
            ELSE substr(m.content, 1, m.at) || t.text || substr(m.content, m.at + 1) END AS content,
       m.extra
FROM messages m LEFT JOIN texts t ON t.hash = m.text;

CREATE VIEW step_text AS
SELECT s.episode, s.ord, s.action, s.performed, coalesce(t.text, '') AS observation, s.error, s.reward, s.done, s.screenshot
FROM steps s LEFT JOIN texts t ON t.hash = s.observation;

CREATE VIEW call_text AS
SELECT c.id, c.episode, c.ord, c.node, c.path, p.content AS last_message, r.content AS response,
       c.prompt_tokens, c.completion_tokens, c.finish_reason, c.seconds, c.error
FROM calls c LEFT JOIN message_text p ON p.hash = c.prompt LEFT JOIN message_text r ON r.hash = c.response;
"""


def _execute(db: Database, script: str) -> None:
    # Not `executescript`, which commits whatever transaction the migration runs in.
    for statement in script.split(";\n"):
        if statement.strip():
            db.execute(statement)


@MIGRATIONS()
def m001_initial(db: Database) -> None:
    """All tables of the trajectory store."""
    _execute(db, _TABLES)


@MIGRATIONS()
def m002_views(db: Database) -> None:
    """Views that show messages, steps and calls with their text."""
    _execute(db, _VIEWS)


@MIGRATIONS()
def m003_scorer(db: Database) -> None:
    """Who scored an episode."""
    _execute(db, "ALTER TABLE episodes ADD COLUMN scorer TEXT;\n")


@MIGRATIONS()
def m004_distillations(db: Database) -> None:
    """What a distillation read, left out and put aside; the calls of its author."""
    _execute(
        db,
        """
ALTER TABLE edits ADD COLUMN target TEXT;

CREATE TABLE distillations (
    run TEXT NOT NULL REFERENCES runs(id),
    generation INTEGER NOT NULL,
    skill_version TEXT REFERENCES skill_versions(id),
    analyst TEXT,
    episodes INTEGER,
    pairs INTEGER,
    successes INTEGER,
    failures INTEGER,
    left_out TEXT,
    aside TEXT,
    duplicates INTEGER,
    candidates INTEGER,
    report TEXT,
    created_at TEXT,
    PRIMARY KEY (run, generation)
) WITHOUT ROWID;

CREATE TABLE author_calls (
    key TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    purpose TEXT,
    author TEXT,
    messages TEXT,
    reply TEXT,
    prompt_tokens INTEGER,
    completion_tokens INTEGER,
    seconds REAL,
    error TEXT,
    created_at TEXT,
    PRIMARY KEY (key, attempt)
) WITHOUT ROWID;

CREATE TABLE edit_calls (
    edit TEXT NOT NULL REFERENCES edits(id),
    call TEXT NOT NULL,
    PRIMARY KEY (edit, call)
) WITHOUT ROWID;
""",
    )


@MIGRATIONS()
def m005_references(db: Database) -> None:
    """Reference files of a skill."""
    _execute(db, "ALTER TABLE skill_versions ADD COLUMN files TEXT;\n")


@MIGRATIONS()
def m006_search(db: Database) -> None:
    """Turns of a search over heuristics, what a heuristic was part of, and scores on fresh instances."""
    _execute(
        db,
        """
ALTER TABLE heuristics ADD COLUMN turn INTEGER;
ALTER TABLE heuristics ADD COLUMN number INTEGER;
ALTER TABLE heuristics ADD COLUMN member INTEGER;
ALTER TABLE heuristics ADD COLUMN reward REAL;
ALTER TABLE heuristics ADD COLUMN output TEXT;
ALTER TABLE heuristics ADD COLUMN cpu_s REAL;

CREATE TABLE search_turns (
    run TEXT NOT NULL REFERENCES runs(id),
    turn INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    operator TEXT NOT NULL,
    children INTEGER NOT NULL,
    valid INTEGER,
    invalid INTEGER,
    kept INTEGER,
    best REAL,
    population TEXT,
    step TEXT,
    sigma REAL,
    skill_version TEXT REFERENCES skill_versions(id),
    seconds REAL,
    created_at TEXT,
    PRIMARY KEY (run, turn)
) WITHOUT ROWID;

CREATE TABLE heuristic_scores (
    heuristic TEXT NOT NULL REFERENCES heuristics(id),
    split TEXT NOT NULL,
    objective REAL,
    objectives TEXT,
    gap REAL,
    status TEXT,
    error TEXT,
    seconds REAL,
    created_at TEXT,
    PRIMARY KEY (heuristic, split)
) WITHOUT ROWID;
""",
    )


@MIGRATIONS()
def m007_pool(db: Database) -> None:
    """Accepted versions of a skill that live side by side."""
    _execute(
        db,
        """
CREATE TABLE skill_pool (
    run TEXT NOT NULL REFERENCES runs(id),
    generation INTEGER NOT NULL,
    skill_version TEXT NOT NULL REFERENCES skill_versions(id),
    place INTEGER NOT NULL,
    mean REAL,
    episodes INTEGER,
    best_on TEXT,
    weight INTEGER NOT NULL,
    PRIMARY KEY (run, generation, skill_version)
) WITHOUT ROWID;
""",
    )
