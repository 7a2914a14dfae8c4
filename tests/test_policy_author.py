"""The built-in model as its own author: what it writes is held to the format of a reply."""

from __future__ import annotations

import pytest
from skill_rows import episode

from coevo.engine import NoiseSpec, load_engine
from coevo.engine.batcher import Batcher
from coevo.engine.models import BUILTIN
from coevo.loop.authors import load_author
from coevo.skill import SkillDocument, select
from coevo.skill.author import MemoryLog
from coevo.skill.llm import LlmAnalyst
from coevo.tables import AuthorTable

SKILL = SkillDocument("web", "How to act on a web page.", "Answer with exactly one action.")


@pytest.mark.model
async def test_a_model_of_135_million_parameters_writes_an_edit() -> None:
    pytest.importorskip("llguidance")
    log = MemoryLog()
    engine = load_engine(BUILTIN, noise=NoiseSpec("lowrank"))
    try:
        async with Batcher(engine, first_wait_s=0.0) as batcher:
            author = load_author(AuthorTable(max_tokens=160))(log, batcher.generate)
            analyst = LlmAnalyst(author, roles=["error"], most=1, examples=False)
            found = await analyst.analyse(
                SKILL, select([episode("e", "I will click it.", category="no_action")])
            )
    finally:
        await engine.close()
    assert len(log.calls) == 1  # none went back to be corrected
    assert "came to nothing" not in analyst.report
    assert [(edit.section, edit.support) for edit in found] in ([("Rules", 1)], [])
