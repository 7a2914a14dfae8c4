"""Where the files of a Hugging Face model come from: the hub, or the cache when the hub does not answer.

The hub is asked once. The libraries that load a model ask for every file, and try each for half a minute.
"""

from __future__ import annotations

import json
from pathlib import Path

from coevo.errors import ModelError

TIMEOUT_S = 10.0


def located(model_id: str, *, instead: str) -> str:
    """`model_id` when the hub has it, else its directory in the cache.

    Raises ModelError that says why the hub does not give it and everything that the cache lacks; `instead` names a model
    that needs no hub.
    """
    from huggingface_hub import HfApi, constants

    try:
        HfApi().model_info(model_id, timeout=TIMEOUT_S)
    except Exception as error:  # the transport's own errors differ from version to version
        lines = str(error).strip().splitlines()
        reason = lines[0] if lines else type(error).__name__
    else:
        return model_id
    folder = _cached(model_id)
    lacking = _lacking(folder)
    if folder is not None and not lacking:
        return str(folder)
    raise ModelError(
        f"model {model_id!r} is not to be had from the hub ({reason}), and the cache {constants.HF_HUB_CACHE} lacks "
        + " and ".join(lacking),
        hint="check the spelling, the network and any access token (HF_TOKEN), fetch it once on a machine with a network"
        f" and copy that cache (HF_HOME), name a local directory, or use {instead!r}",
    )


def _cached(model_id: str) -> Path | None:
    """The directory of the newest revision in the cache; None if there is none, or it is no model id."""
    from huggingface_hub import constants, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        config = try_to_load_from_cache(model_id, "config.json", cache_dir=constants.HF_HUB_CACHE)
    except HFValidationError:
        return None
    return Path(config).parent if isinstance(config, str) else None


def _lacking(folder: Path | None) -> list[str]:
    """What a directory still needs to be a model, by name where the name is known."""
    if folder is None:
        return ["all of its files"]
    lacking = [] if any(folder.glob("tokenizer*")) else ["the tokenizer"]
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        lacking += sorted(shard for shard in shards if not (folder / shard).is_file())
    elif not any(folder.glob("*.safetensors")) and not any(folder.glob("*.bin")):
        lacking.append("the weights")
    return lacking
