"""The embedded engine: any Hugging Face causal language model on a CPU or one GPU.

Populations of low-rank noise are served in one batch (`coevo.engine.population`); full-rank noise, or `population =
"sequential"`, serves one member at a time with weights computed from the fp32 master.

Reproducibility. Greedy or seeded, a request's text depends on its messages, sampling and θ. Floating-point rounding still
varies with the shapes of a batch, so a near-tie between two tokens may break differently in other company. With
`batch_invariant = True` every request runs alone and whole: then the text is a function of the request and θ.
"""

from __future__ import annotations

import asyncio
import platform
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import torch
import transformers

from coevo.engine import models, packed
from coevo.engine.base import (
    Completion,
    Deliver,
    NoiseSpec,
    Perturbation,
    Request,
    Step,
    UpdateReport,
)
from coevo.engine.decoder import Decoder, Written
from coevo.engine.grammar import GrammarCompiler
from coevo.engine.masks import GrammarMasks
from coevo.engine.noise import NOISE_VERSION
from coevo.engine.padded import PaddedRunner
from coevo.engine.population import LowRankPopulation
from coevo.engine.prompts import Encoded, PromptEncoder
from coevo.engine.stems import StemFinder
from coevo.engine.threads import pick_threads
from coevo.engine.weights import Weights
from coevo.errors import EngineError

T = TypeVar("T")
_COLUMNS = 64  # members × rank in one forward pass; keeps the low-rank products a fraction of the layers'


class TransformersEngine:
    """Implements `coevo.engine.Engine`. All model work happens on one thread of its own."""

    def __init__(
        self,
        model_id: str,
        *,
        noise: NoiseSpec,
        dtype: str = "auto",
        device: str = "auto",
        threads: int = 0,
        context: int = 2048,
        population: str = "auto",
        batch_invariant: bool = False,
        batch_tokens: int = 32_768,
        stem_tokens: int = 16_384,
    ) -> None:
        batched = noise.family == "lowrank" if population == "auto" else population == "batched"
        if batched and noise.family != "lowrank":
            raise EngineError(
                "population = 'batched' needs low-rank noise",
                hint="set [es.noise] family = 'lowrank', or [model] population = 'sequential'",
            )
        self._threads = threads or pick_threads()
        torch.set_num_threads(self._threads)
        self._device = models.pick_device(device)
        loaded = models.load(model_id, dtype=dtype, device=self._device)
        self._model_id, self._model, self._tokenizer = model_id, loaded.model, loaded.tokenizer
        limit = getattr(self._model.config.get_text_config(), "max_position_embeddings", None) or context
        self._context = min(context, limit)
        self.weights = Weights(loaded, noise)
        self._population = LowRankPopulation(self._model, self.weights) if batched else None
        self._encoder = PromptEncoder(self._tokenizer, self._context)
        self._stems = StemFinder(self._tokenizer.all_special_ids)
        self._stops = _stop_ids(self._model, self._tokenizer)
        self._grammars = GrammarCompiler(
            self._tokenizer,
            vocabulary=self._model.config.get_text_config().vocab_size,
            stop_ids=self._stops,
            threads=self._threads,
        )
        self._invariant = batch_invariant
        self._batch_tokens = batch_tokens
        self._packed = packed.supports(self._model, self._context)
        self._trunk = (
            packed.trunk_depth(self._model, self.weights.names) if batched and not batch_invariant else 0
        )
        self._runner: packed.PackedRunner | PaddedRunner = (
            packed.PackedRunner(self._model, self._population, trunk=self._trunk, stem_tokens=stem_tokens)
            if self._packed
            else PaddedRunner(self._model, self._population, self._stops[0])
        )
        self._closed = threading.Event()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="coevo-engine")
        self.processed = {"prompt_tokens": 0, "computed_tokens": 0, "completion_tokens": 0, "seconds": 0.0}

    # -- the contract ------------------------------------------------------------------------------------------------

    async def generate(
        self, requests: Sequence[Request], *, deliver: Deliver | None = None
    ) -> list[Completion]:
        loop = asyncio.get_running_loop()

        def tell(position: int, answer: Completion) -> None:
            if deliver is not None:
                loop.call_soon_threadsafe(deliver, position, answer)

        return await self._on_thread(self._generate, list(requests), tell)

    async def update(self, step: Step) -> UpdateReport:
        return await self._on_thread(self._update, step)

    async def checksum(self) -> str:
        return await self._on_thread(self.weights.checksum)

    async def save(self, directory: Path) -> None:
        await self._on_thread(self.weights.save, directory)

    async def restore(self, steps: Iterable[Step]) -> None:
        await self._on_thread(self._restore, list(steps))

    async def close(self) -> None:
        """What is being written ends at its next token, with an EngineError."""
        self._closed.set()
        await asyncio.to_thread(self._worker.shutdown, wait=True, cancel_futures=True)

    def describe(self) -> dict[str, Any]:
        return {
            "engine": "transformers",
            "model": self._model_id,
            "parameters": sum(p.numel() for p in self._model.parameters()),
            "moved_coordinates": self.weights.coordinates,
            "moved_tensors": len(self.weights.names),
            "dtype": str(self._model.dtype).removeprefix("torch."),
            "device": self._device,
            "threads": self._threads,
            "context": self._context,
            "population": "batched" if self._population else "sequential",
            "shared_layers": self._trunk,
            "attention": "packed" if self._packed else "padded",
            "batch_invariant": self._invariant,
            "noise_version": NOISE_VERSION,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "machine": platform.machine(),
        }

    # -- on the engine's thread ----------------------------------------------------------------------------------------

    async def _on_thread(self, function: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._worker, function, *args)

    def _update(self, step: Step) -> UpdateReport:
        self._runner.forget()
        return self.weights.update(step)

    def _restore(self, steps: list[Step]) -> None:
        self._runner.forget()
        self.weights.restore(steps)

    @torch.inference_mode()
    def _generate(self, requests: list[Request], deliver: Deliver) -> list[Completion]:
        start = time.perf_counter()
        encoded = [self._encoder.encode(request) for request in requests]
        for grammar in {request.sampling.grammar for request in requests} - {""}:
            self._grammars.matcher(grammar)  # a broken one is told before anything is computed
        whole = self._invariant or not self._packed
        stems = [0] * len(requests) if whole else self._stems.lengths([e.tokens for e in encoded])
        answers: dict[int, Completion] = {}

        def complete(index: int, answer: Completion) -> None:
            answers[index] = answer
            deliver(index, answer)

        for batch in self._batches(requests, encoded, stems):
            self._run_batch(batch, requests, encoded, stems, complete)
        self.processed["seconds"] += time.perf_counter() - start
        return [answers[index] for index in range(len(requests))]

    def _batches(
        self, requests: Sequence[Request], encoded: Sequence[Encoded], stems: Sequence[int]
    ) -> list[list[int]]:
        """Indices to run together: by member, at most `batch_tokens` of own prompt and answer, bounded columns."""
        order = sorted(
            range(len(requests)), key=lambda i: (repr(requests[i].perturbation), len(encoded[i].tokens))
        )
        if self._invariant:
            return [[i] for i in order]
        most = max(1, _COLUMNS // self.weights.spec.rank) if self._population else 1
        batches: list[list[int]] = []
        members: set[Perturbation | None] = set()
        tokens = 0
        for i in order:
            cost = len(encoded[i].tokens) - stems[i] + requests[i].sampling.max_tokens
            joined = members | {requests[i].perturbation}
            if not batches or len(joined) > most or tokens + cost > self._batch_tokens:
                batches.append([])
                joined, tokens = {requests[i].perturbation}, 0
            batches[-1].append(i)
            members, tokens = joined, tokens + cost
        return batches

    def _run_batch(
        self,
        batch: list[int],
        requests: Sequence[Request],
        encoded: Sequence[Encoded],
        stems: Sequence[int],
        complete: Deliver,
    ) -> None:
        begun = time.perf_counter()
        members = list(dict.fromkeys(requests[i].perturbation for i in batch))
        if self._population is not None:
            self._population.use(members)
        else:
            self._serve(members[0])
        prompts = [
            packed.Prompt(
                encoded[i].tokens,
                stems[i],
                members.index(requests[i].perturbation),
                requests[i].perturbation,
            )
            for i in batch
        ]
        samplings = [requests[i].sampling for i in batch]
        masks = GrammarMasks(self._grammars, [sampling.grammar for sampling in samplings])

        def ended(position: int, written: Written) -> None:
            i, stem = batch[position], prompts[position].stem
            self.processed["prompt_tokens"] += len(encoded[i].tokens)
            self.processed["computed_tokens"] += len(encoded[i].tokens) - stem
            self.processed["completion_tokens"] += written.tokens
            answer = Completion(
                text=written.text,
                prompt_tokens=len(encoded[i].tokens),
                completion_tokens=written.tokens,
                finish_reason=written.reason,
                weights_step=self.weights.step,
                cached_tokens=stem,
                truncated_tokens=encoded[i].truncated,
                seconds=time.perf_counter() - begun,
            )
            complete(i, answer)

        Decoder(self._tokenizer, self._stops, samplings, prompts, masks, ended, self._closed.is_set).run(
            self._runner
        )

    def _serve(self, perturbation: Perturbation | None) -> None:
        if perturbation is None or perturbation != self.weights.serving:
            self._runner.forget()
        self.weights.perturb(perturbation)


def _stop_ids(model: Any, tokenizer: Any) -> list[int]:
    configured = getattr(model.generation_config, "eos_token_id", None)
    ids = configured if isinstance(configured, list) else [configured]
    ids = [*ids, tokenizer.eos_token_id]
    found = list(dict.fromkeys(i for i in ids if i is not None))
    if not found:
        raise EngineError("neither model nor tokenizer names an end-of-sequence token")
    return found
