"""Models of the Hugging Face hub when it does not answer: one question, the cache, and all that is missing at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import huggingface_hub
import pytest
from click.testing import CliRunner
from toyrun import workspace

from coevo.cli import main
from coevo.engine import hub, models
from coevo.errors import ModelError

NAME = "somebody/small"


class Hub:
    def __init__(self) -> None:
        self.asked: list[str] = []
        self.error: Exception | None = ConnectionError("[Errno -2] Name or service not known\nmore")

    def model_info(self, model_id: str, *, timeout: float) -> None:
        self.asked.append(model_id)
        assert timeout == hub.TIMEOUT_S
        if self.error:
            raise self.error


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Hub:
    """The hub, which is down unless a test says otherwise."""
    made = Hub()
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: made)
    return made


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: Hub) -> Callable[..., Path]:
    """Put files of the model into a cache."""
    cache = tmp_path / "cache"
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))

    def put(**files: str) -> Path:
        model = cache / "models--somebody--small"
        folder = model / "snapshots" / "a1b2"
        folder.mkdir(parents=True, exist_ok=True)
        (model / "refs").mkdir(exist_ok=True)
        (model / "refs" / "main").write_text("a1b2")
        for name, text in files.items():
            (folder / name.replace("__", ".")).write_text(text)
        return folder

    return put


def test_the_hub_is_asked_first_and_once(answers: Hub) -> None:
    answers.error = None
    assert models.resolve(NAME) == NAME
    assert answers.asked == [NAME]
    assert models.look_up(NAME) == f"{NAME} is on the Hugging Face hub"


def test_the_cache_serves_when_the_hub_does_not_answer(answers: Hub, cached: Callable[..., Path]) -> None:
    folder = cached(config__json="{}", tokenizer__json="{}", model__safetensors="")
    assert models.resolve(NAME) == str(folder)
    assert models.look_up(NAME) == str(folder)
    assert answers.asked == [NAME] * 2


def test_all_that_the_cache_lacks_is_told(cached: Callable[..., Path]) -> None:
    with pytest.raises(ModelError, match="lacks all of its files") as caught:
        models.resolve(NAME)
    assert f"model {NAME!r} is not to be had from the hub ([Errno -2] Name or service not known)" in str(
        caught.value
    )
    cached(config__json="{}")
    with pytest.raises(ModelError, match="lacks the tokenizer and the weights"):
        models.resolve(NAME)
    folder = cached(tokenizer__json="{}", model_1__safetensors="")
    weights = {"a": "model_1.safetensors", "b": "model_2.safetensors", "c": "model_3.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weights}))
    with pytest.raises(ModelError, match=r"lacks model_2\.safetensors and model_3\.safetensors"):
        models.resolve(NAME)


@pytest.mark.usefixtures("cached")
def test_a_name_that_cannot_be_one(answers: Hub) -> None:
    answers.error = ValueError("Repo id must be in the form 'namespace/name'")
    with pytest.raises(ModelError, match="Repo id must be"):
        models.resolve("a/b/c/d")


@pytest.mark.usefixtures("cached")
def test_a_check_tells_everything_that_is_missing_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: Hub
) -> None:
    monkeypatch.chdir(tmp_path)
    workspace(tmp_path)
    wrong = ("model.engine=transformers", f"model.id={NAME}", "model.device=cuda", "skill.analyst=oracle")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    result = CliRunner().invoke(
        main, ["check", "toy.toml", *wrong, "agent.skill=nothing", "agent.graph=nowhere.py:graph", "--json"]
    )
    assert result.exit_code == 1
    checks = {one["name"]: one for one in json.loads(result.stdout)}
    failed = [name for name, one in checks.items() if one["status"] == "failed"]
    assert failed == ["model files", "skill", "analyst", "agent"]
    assert "torch sees no GPU; model 'somebody/small' is not to be had" in checks["model files"]["detail"]
    assert "use device = 'auto' or 'cpu'; check the spelling" in checks["model files"]["next_step"]
    assert checks["model"]["detail"] == "needs model files"
    assert answers.asked == [NAME]
