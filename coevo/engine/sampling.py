"""From logits to tokens, row by row: a row's choice depends on its own logits, history and seed, on nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch

from coevo.engine.base import Sampling


def pick(
    logits: torch.Tensor,
    samplings: Sequence[Sampling],
    prompts: Sequence[Sequence[int]],
    outputs: Sequence[Sequence[int]],
) -> list[int]:
    """One token a row. `logits` [S, vocab] float32 (may be changed in place; −∞ where a grammar forbids); `outputs` are the
    tokens so far.

    Order of operations as in vLLM: penalties, temperature, min-p, top-k, top-p. Presence and frequency penalties
    count generated tokens; the repetition penalty counts the prompt too.
    """
    for row, sampling in enumerate(samplings):
        _penalise(logits[row], sampling, prompts[row], outputs[row])
    chosen: list[int] = logits.argmax(dim=-1).tolist()
    for row, sampling in enumerate(samplings):
        if sampling.temperature > 0:
            chosen[row] = _sample(logits[row] / sampling.temperature, sampling, len(outputs[row]))
    return chosen


def _penalise(row: torch.Tensor, sampling: Sampling, prompt: Sequence[int], output: Sequence[int]) -> None:
    if sampling.repetition_penalty != 1.0:
        seen = torch.tensor(sorted({*prompt, *output}), device=row.device)
        values = row[seen]
        row[seen] = torch.where(
            values > 0, values / sampling.repetition_penalty, values * sampling.repetition_penalty
        )
    if output and (sampling.presence_penalty or sampling.frequency_penalty):
        tokens, counts = torch.unique(torch.tensor(output, device=row.device), return_counts=True)
        row[tokens] -= sampling.presence_penalty + sampling.frequency_penalty * counts


def _sample(row: torch.Tensor, sampling: Sampling, position: int) -> int:
    allowed_only = row.isfinite().nonzero()[:, 0] if sampling.grammar else None  # a few: sorting all is slow
    if allowed_only is not None:
        row = row[allowed_only]
    size = min(sampling.top_k, row.numel()) if sampling.top_k > 0 else row.numel()
    values, tokens = torch.topk(row, size)  # best first
    if allowed_only is not None:
        tokens = allowed_only[tokens]
    total = row if sampling.top_k <= 0 else values
    probabilities = torch.exp(values - torch.logsumexp(total, 0)).double()
    allowed = probabilities >= sampling.min_p * probabilities[0]
    if sampling.top_p < 1.0:
        before = probabilities.cumsum(0) - probabilities
        allowed &= before < sampling.top_p
    cumulative = torch.where(allowed, probabilities, 0.0).cumsum(0)
    point = uniform(sampling.seed, position) * float(cumulative[-1])
    index = int(
        torch.searchsorted(
            cumulative, torch.tensor(point, dtype=torch.float64, device=row.device), right=True
        )
    )
    return int(tokens[min(index, size - 1)])


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) for token `position` of the request with this seed: no generator state to share or lose."""
    digest = hashlib.blake2b(f"{seed}\x1f{position}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) * 2.0**-53
