"""Prefill and decode through a model's own cache, left-padded: for architectures that `coevo.engine.packed` can't run
(linear attention, sliding windows, ALiBi …). Slower, same contract."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from transformers import PreTrainedModel

from coevo.engine.packed import Prompt
from coevo.engine.population import LowRankPopulation


class PaddedRunner:
    """See `PackedRunner`; sequences keep the order of `start`, finished ones stay in the batch until `finish`."""

    def __init__(self, model: PreTrainedModel, population: LowRankPopulation | None, pad_id: int) -> None:
        self._model = model
        self._population = population
        self._pad = pad_id
        self._device = next(model.parameters()).device
        accepted = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in accepted else "past_key_values"
        self._cache: Any = None
        self._mask = torch.empty(0)
        self._members: list[int] = []
        self._rows: list[int] = []
        self.cached_tokens = 0

    def forget(self) -> None:
        """Nothing is kept between calls."""

    def start(self, prompts: Sequence[Prompt], room: int) -> tuple[torch.Tensor, list[int]]:
        longest = max(len(p.tokens) for p in prompts)
        ids = torch.full((len(prompts), longest), self._pad)
        self._mask = torch.zeros((len(prompts), longest), dtype=torch.long)
        for row, prompt in enumerate(prompts):
            ids[row, longest - len(prompt.tokens) :] = torch.tensor(prompt.tokens)
            self._mask[row, longest - len(prompt.tokens) :] = 1
        self._mask = self._mask.to(self._device)
        self._members = [p.member for p in prompts]
        self._rows = list(range(len(prompts)))
        self._cache = None
        return self._forward(ids.to(self._device)), list(range(len(prompts)))

    def advance(self, tokens: Sequence[int], keep: Sequence[int] | None = None) -> torch.Tensor:
        if keep is not None:
            self._rows = [self._rows[row] for row in keep]
        ids = torch.full((len(self._members), 1), self._pad)
        ids[self._rows, 0] = torch.tensor(tokens)
        self._mask = torch.cat([self._mask, torch.ones_like(self._mask[:, :1])], dim=1)
        return self._forward(ids.to(self._device))[self._rows]

    def finish(self) -> None:
        self._cache = None

    def _forward(self, ids: torch.Tensor) -> torch.Tensor:
        if self._population is not None:
            members = torch.tensor(self._members).repeat_interleave(ids.shape[1])
            self._population.route(members.to(self._device))
        positions = (self._mask.cumsum(1) - 1).clamp_(min=0)[:, -ids.shape[1] :]
        output = self._model(
            input_ids=ids,
            attention_mask=self._mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1,
            **({self._cache_name: self._cache} if self._cache is not None else {}),
        )
        self._cache = output[self._cache_name]
        logits: torch.Tensor = output.logits[:, -1].float()
        return logits
