"""Attention over sequences of unequal length that share stems: keys and values, masks, and the two products.

`Sequences` holds a batch for a range of layers. Prefill attends in padded chunks; decoding attends to the stem once for all
sequences that share it and to each sequence's own block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch.nn.functional import scaled_dot_product_attention

_CHUNK = 48  # sequences a call of prefill attention; bounds its scratch memory


@dataclass(slots=True)
class Stem:
    """Keys and values of a shared prompt beginning: [kv_heads, length, head] by layer."""

    length: int
    keys: dict[int, torch.Tensor] = field(default_factory=dict)
    values: dict[int, torch.Tensor] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Chunk:
    first: int
    last: int
    width: int  # longest own prompt in the chunk
    depth: int  # longest stem
    gather: torch.Tensor  # [B, T] packed index of each own token, 0 where padded
    inside: torch.Tensor  # [B, T] bool, real tokens
    mask: torch.Tensor  # [B, 1, T, depth + T] bool, what each query may see


class Sequences:
    """A batch: own tokens, the stem before them, and `room` for answers. Rows that share a stem should be adjacent."""

    def __init__(
        self, own: Sequence[Sequence[int]], stems: Sequence[Stem | None], room: int, device: torch.device
    ) -> None:
        self.lengths = [len(tokens) for tokens in own]
        self.tokens = [token for tokens in own for token in tokens]
        self.decoding = False
        self._stems = list(stems)
        self._device = device
        self._capacity = max(self.lengths) + room
        self._keys: dict[int, torch.Tensor] = {}  # by layer: [S, kv_heads, capacity, head]
        self._values: dict[int, torch.Tensor] = {}
        starts = [stem.length if stem else 0 for stem in stems]
        self._stem_lengths = torch.tensor(starts, device=device)
        self.filled = torch.tensor(self.lengths, device=device)
        self.positions = torch.tensor(
            [start + t for start, n in zip(starts, self.lengths, strict=True) for t in range(n)],
            device=device,
        )
        self._row = torch.tensor([row for row, n in enumerate(self.lengths) for _ in range(n)], device=device)
        self._column = torch.tensor([t for n in self.lengths for t in range(n)], device=device)
        count = len(self.lengths)
        self._chunks = [self._plan(a, min(a + _CHUNK, count)) for a in range(0, count, _CHUNK)]

    @property
    def tokens_in_pass(self) -> int:
        """Tokens in the pass that is running: every prompt token, or one a row."""
        return len(self.lengths) if self.decoding else len(self.tokens)

    def token_index(self, rows: Sequence[int]) -> torch.Tensor:
        """Packed indices of all prompt tokens of `rows`, one row after the other."""
        starts = [0]
        for n in self.lengths:
            starts.append(starts[-1] + n)
        return torch.tensor(
            [t for row in rows for t in range(starts[row], starts[row + 1])], device=self._device
        )

    def copy_row(self, row: int, stem: Stem) -> None:
        """Put the keys and values of one row into `stem`."""
        for source, target in ((self._keys, stem.keys), (self._values, stem.values)):
            for layer, block in source.items():
                target[layer] = block[row, :, : self.lengths[row]].clone()

    def select(self, rows: Sequence[int]) -> None:
        """Keep `rows`, in that order; a row may come twice (its text branches)."""
        index = torch.tensor(rows, device=self._device)
        self._keys = {layer: block[index] for layer, block in self._keys.items()}
        self._values = {layer: block[index] for layer, block in self._values.items()}
        self.filled, self._stem_lengths = self.filled[index], self._stem_lengths[index]
        self.lengths = [self.lengths[row] for row in rows]
        self._stems = [self._stems[row] for row in rows]

    # -- prefill -------------------------------------------------------------------------------------------------------

    def _plan(self, first: int, last: int) -> _Chunk:
        lengths = torch.tensor(self.lengths[first:last], device=self._device)
        stems = self._stem_lengths[first:last]
        width, depth = int(lengths.max()), int(stems.max())
        starts = sum(self.lengths[:first]) + lengths.cumsum(0) - lengths
        steps = torch.arange(width, device=self._device)
        inside = steps[None] < lengths[:, None]  # [B, T]
        gather = torch.where(inside, starts[:, None] + steps[None], 0)
        see_own = steps[:, None] >= steps[None]  # [T, T], causal; padded keys lie behind every real query
        see_stem = torch.arange(depth, device=self._device)[None] < stems[:, None]  # [B, depth]
        mask = torch.cat(
            [see_stem[:, None].expand(-1, width, -1), see_own[None].expand(len(lengths), -1, -1)], dim=2
        )
        return _Chunk(first, last, width, depth, gather, inside, mask[:, None])

    def attend(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """Causal attention of packed prompt tokens: q [tokens, heads, head], k and v [tokens, kv_heads, head]."""
        heads, head = q.shape[1:]
        kv_heads = k.shape[1]
        group = heads // kv_heads
        for store, new in ((self._keys, k), (self._values, v)):
            store[layer] = new.new_zeros((len(self.lengths), kv_heads, self._capacity, head))
            store[layer][self._row, :, self._column] = new
        out = torch.empty_like(q)
        for c in self._chunks:
            size = c.last - c.first
            keys, values = (
                torch.cat([self._stem_block(side, layer, c, own), own[c.first : c.last, :, : c.width]], dim=2)
                for side, own in (("keys", self._keys[layer]), ("values", self._values[layer]))
            )
            # heads of a group share keys: fold the group into the query axis instead of copying keys
            queries = q[c.gather].view(size, c.width, kv_heads, group, head).permute(0, 2, 3, 1, 4)
            queries = queries.reshape(size, kv_heads, group * c.width, head)
            mask = c.mask.repeat(1, 1, group, 1)
            mixed = scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=scale)
            mixed = mixed.view(size, kv_heads, group, c.width, head).permute(0, 3, 1, 2, 4)
            out[c.gather[c.inside]] = mixed.reshape(size, c.width, heads, head)[c.inside]
        return out

    def _stem_block(self, side: str, layer: int, c: _Chunk, own: torch.Tensor) -> torch.Tensor:
        block = own.new_zeros((c.last - c.first, own.shape[1], c.depth, own.shape[3]))
        for row, stem in enumerate(self._stems[c.first : c.last]):
            if stem is not None:
                block[row, :, : stem.length] = getattr(stem, side)[layer]
        return block

    # -- decode --------------------------------------------------------------------------------------------------------

    def next_positions(self) -> torch.Tensor:
        """Position of the next token of each row [S]."""
        return self._stem_lengths + self.filled

    def grow(self) -> None:
        """Prepare the masks of the next step. Raises `RuntimeError` when no room is left."""
        self._width = int(self.filled.max()) + 1
        if self._width > self._capacity:
            raise RuntimeError("a sequence outgrew the room reserved for it")
        columns = torch.arange(self._width, device=self._device)
        self._hidden = (columns[None] > self.filled[:, None])[:, None, None]  # [S, 1, 1, width]
        self._spans: list[tuple[int, int, Stem]] = []
        for row, stem in enumerate(self._stems):
            if stem is None:
                continue
            if self._spans and self._spans[-1][1] == row and self._spans[-1][2] is stem:
                self._spans[-1] = (self._spans[-1][0], row + 1, stem)
            else:
                self._spans.append((row, row + 1, stem))

    def attend_one(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """Attention of one new token a row: q [S, heads, head], k and v [S, kv_heads, head]."""
        count, heads, head = q.shape
        kv_heads = k.shape[1]
        group = heads // kv_heads
        rows = torch.arange(count, device=self._device)
        self._keys[layer][rows, :, self.filled] = k
        self._values[layer][rows, :, self.filled] = v
        queries = q.reshape(count, kv_heads, group, head)
        depth = int(self._stem_lengths.max())
        scores = q.new_full((count, kv_heads, group, depth + self._width), float("-inf"))
        for first, last, stem in self._spans:
            spread = queries[first:last].transpose(0, 1).reshape(kv_heads, -1, head)  # [kv, n·group, head]
            part = spread @ stem.keys[layer].transpose(1, 2)
            scores[first:last, :, :, : stem.length] = part.view(kv_heads, last - first, group, -1).transpose(
                0, 1
            )
        own = queries @ self._keys[layer][:, :, : self._width].transpose(2, 3)
        scores[..., depth:] = own.masked_fill_(self._hidden, float("-inf"))
        weights = torch.softmax(scores.float() * scale, dim=-1).to(q.dtype)
        out = weights[..., depth:] @ self._values[layer][:, :, : self._width]
        for first, last, stem in self._spans:
            part = weights[first:last, :, :, : stem.length].transpose(0, 1).reshape(kv_heads, -1, stem.length)
            mixed = part @ stem.values[layer]
            out[first:last] += mixed.view(kv_heads, last - first, group, head).transpose(0, 1)
        return out.reshape(count, heads, head)
