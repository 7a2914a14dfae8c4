"""A tiny random language model for tests: real architecture, real tokenizer, loads in a second, no download."""

from __future__ import annotations

import atexit
import tempfile
from functools import cache
from pathlib import Path

CHAT_TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@cache
def _temporary() -> Path:
    holder = tempfile.TemporaryDirectory(prefix="coevo-tiny-")
    atexit.register(holder.cleanup)
    return Path(holder.name)


_SPECIAL = ["<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>"]


def tiny_model(directory: Path | None = None, *, layers: int = 3, seed: int = 0, tied: bool = True) -> Path:
    """Write a random Llama (about 50k parameters, byte-level vocabulary, chat template) to `directory`.

    Returns the directory, ready for `load_engine(str(directory), …)`. Existing files are kept. Without a directory a
    temporary one is made, once a process.
    """
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    directory = directory or _temporary()
    if (directory / "config.json").is_file():
        return directory
    directory.mkdir(parents=True, exist_ok=True)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate(_SPECIAL + alphabet)}
    raw = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=raw,
        eos_token="<|end|>",
        pad_token="<|end|>",
        additional_special_tokens=_SPECIAL[1:],
        chat_template=CHAT_TEMPLATE,
    )
    tokenizer.save_pretrained(directory)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        tie_word_embeddings=tied,
        eos_token_id=0,
        pad_token_id=0,
        bos_token_id=None,
        initializer_range=0.3,  # large enough that random weights prefer some tokens over others
    )
    state = torch.random.get_rng_state()
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config)
    torch.random.set_rng_state(state)
    model.save_pretrained(directory)
    return directory
