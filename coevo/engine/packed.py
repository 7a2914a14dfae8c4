"""Prefill and decode without padding: the tokens of all sequences run through the linear layers as one row.

Only attention looks at sequence borders. Three things keep a population's forward pass small:

* no padding: linear layers see real tokens only;
* a *stem* (what prompts share: system message, skill, examples) is encoded once a member, for all its sequences;
* the *trunk*, the layers below the first one that noise moves, is the same for every member: it runs once for each
  distinct text, and its output is fanned out to the members that read the same text (all members face the same tasks).

Works with every Hugging Face decoder that calls its attention through `AttentionInterface` and attends to all
earlier tokens; `supports` tells. Other models go through `coevo.engine.padded`.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AttentionInterface, PreTrainedModel

from coevo.engine.attention import Sequences, Stem
from coevo.engine.population import LowRankPopulation

_NAMES = itertools.count()


@dataclass(frozen=True, slots=True)
class Prompt:
    """One sequence to start: its tokens, how many of them form the stem, and its member (index into `use`)."""

    tokens: tuple[int, ...]
    stem: int
    member: int
    cache_key: object


def supports(model: PreTrainedModel, context: int) -> bool:
    """Whether this model can run packed: attention interface, full attention in every layer within `context`."""
    config = model.config.get_text_config()
    if not getattr(model, "_supports_attention_backend", False):
        return False
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if kinds <= {"full_attention"}:
        window = getattr(config, "sliding_window", None)
        return not window or not getattr(config, "use_sliding_window", True) or window >= context
    return False


class PackedRunner:
    """Runs batches on one model. `start` encodes prompts, `advance` feeds one token a sequence; both return logits.

    `trunk` is the number of lowest layers that no perturbation touches. Sequences are kept sorted by stem; `order`
    maps rows of the logits to positions in the `start` call.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        population: LowRankPopulation | None,
        *,
        trunk: int = 0,
        stem_tokens: int,
    ) -> None:
        self._model = model
        self._population = population
        self._trunk = trunk
        self._device = next(model.parameters()).device
        self._stems: OrderedDict[object, Stem] = OrderedDict()
        self._stem_budget = stem_tokens
        self._branch: Sequences | None = None  # one row a request, layers from `trunk` upwards
        self._root: Sequences | None = None  # one row a distinct text, layers below `trunk`
        self._members: list[int] = []
        self._texts: list[int] = []  # row of `_root` that each row of `_branch` reads
        self._fan_out: torch.Tensor | None = (
            None  # token of the root's pass that each token of the branch copies
        )
        name = f"coevo_packed_{next(_NAMES)}"
        AttentionInterface.register(name, self._attention)
        model.set_attn_implementation(name)
        if trunk:
            above = decoder_layers(model)[trunk:]
            self._first_above = above[0]
            for layer in above:
                layer.register_forward_pre_hook(self._fan_out_inputs, with_kwargs=True)

    def forget(self) -> None:
        """Drop every cached stem: the weights moved."""
        self._stems.clear()

    def start(self, prompts: Sequence[Prompt], room: int) -> tuple[torch.Tensor, list[int]]:
        """Encode prompts; reserve `room` further tokens a sequence. Returns (logits [S, vocab], order [S])."""
        self._encode_stems(prompts)
        order = sorted(
            range(len(prompts)),
            key=lambda i: (
                str(prompts[i].cache_key),
                prompts[i].tokens[: prompts[i].stem],
                len(prompts[i].tokens),
            ),
        )
        logits = self._prefill([prompts[i] for i in order], room)
        while sum(stem.length for stem in self._stems.values()) > self._stem_budget and len(self._stems) > 1:
            self._stems.popitem(last=False)
        return logits, order

    def advance(self, tokens: Sequence[int], keep: Sequence[int] | None = None) -> torch.Tensor:
        """Append one token to each sequence and return the next logits [S, vocab].

        With `keep` (ascending rows) the other sequences are dropped first and `tokens` speaks of the kept ones.
        """
        assert self._branch is not None, "start comes before advance"
        if keep is not None:
            self._branch.select(list(keep))
            self._members = [self._members[row] for row in keep]
            if self._root is not None:
                self._texts = [self._texts[row] for row in keep]
        if self._root is not None:
            # rows that share a text and now the next token stay one text; others branch off
            pairs = list(dict.fromkeys(zip(self._texts, tokens, strict=True)))
            parents = [text for text, _ in pairs]
            if parents != list(range(len(self._root.lengths))):
                self._root.select(parents)
            place = {pair: row for row, pair in enumerate(pairs)}
            self._texts = [place[pair] for pair in zip(self._texts, tokens, strict=True)]
            self._fan_out = torch.tensor(self._texts, device=self._device)
            self._root.grow()
        self._branch.grow()
        entry = self._root or self._branch
        ids = [token for _, token in pairs] if self._root is not None else list(tokens)
        logits = self._run(ids, entry.next_positions(), self._members, torch.arange(len(tokens)))
        self._branch.filled += 1
        if self._root is not None:
            self._root.filled += 1
        return logits

    def finish(self) -> None:
        """Free the batch's keys and values."""
        self._branch = self._root = self._fan_out = None

    # -- prompts -------------------------------------------------------------------------------------------------------

    def _encode_stems(self, prompts: Sequence[Prompt]) -> None:
        fresh: dict[object, Prompt] = {}
        for prompt in prompts:
            key = _stem_key(prompt)
            if not prompt.stem or key in fresh:
                continue
            if key in self._stems:
                self._stems.move_to_end(key)
            else:
                fresh[key] = Prompt(prompt.tokens[: prompt.stem], 0, prompt.member, prompt.cache_key)
        if not fresh:
            return
        self._prefill(list(fresh.values()), 0)
        assert self._branch is not None
        for row, (key, prompt) in enumerate(fresh.items()):
            stem = Stem(len(prompt.tokens))
            self._branch.copy_row(row, stem)
            if self._root is not None:
                self._root.copy_row(self._texts[row], stem)
            self._stems[key] = stem

    def _prefill(self, prompts: Sequence[Prompt], room: int) -> torch.Tensor:
        stems = [self._stems[_stem_key(p)] if p.stem else None for p in prompts]
        own = [p.tokens[p.stem :] for p in prompts]
        self._members = [p.member for p in prompts]
        self._branch = entry = Sequences(own, stems, room, self._device)
        self._root = self._fan_out = None
        if self._trunk:
            firsts: dict[tuple[int, ...], int] = {}
            for row, prompt in enumerate(prompts):
                firsts.setdefault(prompt.tokens, row)
            rows = list(firsts.values())
            self._root = entry = Sequences(
                [own[r] for r in rows], [stems[r] for r in rows], room, self._device
            )
            place = {tokens: text for text, tokens in enumerate(firsts)}
            self._texts = [place[p.tokens] for p in prompts]
            self._fan_out = entry.token_index(self._texts)
        ends = torch.tensor([len(tokens) for tokens in own])
        members = [m for m, tokens in zip(self._members, own, strict=True) for _ in tokens]
        logits = self._run(entry.tokens, entry.positions, members, ends.cumsum(0) - 1)
        for sequences in (self._branch, self._root):
            if sequences is not None:
                sequences.decoding = True
        return logits

    # -- forward passes ------------------------------------------------------------------------------------------------

    def _run(
        self, ids: Sequence[int], positions: torch.Tensor, members: Sequence[int], rows: torch.Tensor
    ) -> torch.Tensor:
        if self._population is not None:
            self._population.route(torch.tensor(members, device=self._device))
        output = self._model(
            input_ids=torch.tensor(ids, device=self._device)[None],
            position_ids=positions[None],
            use_cache=False,
            logits_to_keep=rows.to(self._device),
        )
        logits: torch.Tensor = output.logits[0].float()
        return logits

    def _fan_out_inputs(self, layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Before a layer above the trunk: give every member its own copy of what belongs to its text.

        Hidden states need it once, at the first such layer; positions come unspread from the model each time.
        """
        if self._fan_out is None or self._root is None:
            return None
        index, shared = self._fan_out, self._root.tokens_in_pass
        first = layer is self._first_above

        def spread(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(spread(part) for part in value)
            if isinstance(value, torch.Tensor) and value.ndim >= 2 and value.shape[1] == shared:
                return value.index_select(1, index)
            return value

        kwargs = {name: spread(v) if first or name != "hidden_states" else v for name, v in kwargs.items()}
        return (tuple(spread(a) for a in args) if first else args), kwargs

    # -- attention -----------------------------------------------------------------------------------------------------

    def _attention(
        self,
        module: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: Any,
        scaling: float | None = None,
        **_: Any,
    ) -> tuple[torch.Tensor, None]:
        """`AttentionInterface` form: query [1, heads, tokens, head], key and value [1, kv_heads, tokens, head]."""
        sequences = self._root if self._root is not None and module.layer_idx < self._trunk else self._branch
        assert sequences is not None, "packed attention runs only inside PackedRunner"
        scale = scaling if scaling is not None else query.shape[-1] ** -0.5
        q, k, v = (t[0].transpose(0, 1) for t in (query, key, value))  # [tokens, heads, head]
        attend = sequences.attend_one if sequences.decoding else sequences.attend
        return attend(module.layer_idx, q, k, v, scale)[None], None


def decoder_layers(model: PreTrainedModel) -> list[torch.nn.Module]:
    """The decoder layers in order, or an empty list where the model does not keep them in one `layers` list."""
    layers = getattr(getattr(model, "base_model", None), "layers", None)
    return list(layers) if isinstance(layers, torch.nn.ModuleList) else []


def trunk_depth(model: PreTrainedModel, moved: Sequence[str]) -> int:
    """How many of the lowest layers hold no tensor of `moved`; 0 when something below them moves."""
    layers = decoder_layers(model)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    inside = [{names[id(p)] for p in layer.parameters() if id(p) in names} for layer in layers]
    hit = [index for index, owned in enumerate(inside) if owned & set(moved)]
    head = {names[id(p)] for p in _head(model).parameters() if id(p) in names}
    elsewhere = set(moved) - set().union(*inside) - head if inside else set(moved)
    return hit[0] if hit and not elsewhere else 0


def _stem_key(prompt: Prompt) -> object:
    return (prompt.cache_key, prompt.tokens[: prompt.stem])


def _head(model: PreTrainedModel) -> torch.nn.Module:
    find: Any = model.get_output_embeddings
    head: torch.nn.Module = find()
    return head
