"""A language model small enough to train in minutes on two cores, made from nothing.

The tokenizer is a byte-level BPE trained on texts of the suite itself, with every digit a token of
its own (numbers are then read and written digit by digit, whatever their length) and one token for
each role marker, so that a conversation costs few tokens. The model is a plain
``LlamaForCausalLM``: whatever trains or serves it treats it like any other checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

PAD, END = "<|pad|>", "<|end|>"
ROLES = ("system", "user", "assistant", "tool")
# The frame of a call costs five tokens: on a CPU, time is what tokens are made of.
MARKUP = (
    '<tool_call>{"name": "', '", "arguments": {"', '": "', '"}}</tool_call>', "<tool_call>",
    "</tool_call>",
)  # fmt: skip

# The tools are named with their parameters and nothing else: a model of this size learns what they
# do from examples, and every token of a prompt is paid for in each step of each episode.
CHAT_TEMPLATE = (
    "{%- set ns = namespace(tools='') -%}"
    "{%- for t in tools or [] -%}{%- set f = t.function if t.function is defined else t -%}"
    "{%- set ns.tools = ns.tools + '\\n' + f.name + '(' + "
    "((f.parameters.properties | default({})).keys() | list | join(', ') "
    "if f.parameters is defined else '') + ')' -%}"
    "{%- endfor -%}"
    "{%- if ns.tools and (not messages or messages[0].role != 'system') -%}"
    "<|system|>{{ ns.tools[1:] }}<|end|>{%- endif -%}"
    "{%- for m in messages -%}"
    "<|{{ m.role }}|>{{ m.content }}"
    "{%- if loop.first and m.role == 'system' -%}{{ ns.tools }}{%- endif -%}"
    "<|end|>"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}"
)

SIZES: dict[str, dict[str, Any]] = {
    # Few key heads: on a CPU, decoding waits for the cache to be read.
    "tiny": {"hidden_size": 192, "num_hidden_layers": 3, "num_attention_heads": 6,
             "num_key_value_heads": 2, "intermediate_size": 576},
    "small": {"hidden_size": 256, "num_hidden_layers": 3, "num_attention_heads": 8,
              "num_key_value_heads": 2, "intermediate_size": 768},
    "mini": {"hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4,
             "num_key_value_heads": 2, "intermediate_size": 384},
    "micro": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
              "num_key_value_heads": 1, "intermediate_size": 128},
}  # fmt: skip


def train_tokenizer(
    texts: Iterable[str],
    vocab_size: int = 1024,
    *,
    model_max_length: int = 2048,
    split_digits: bool = True,
) -> PreTrainedTokenizerFast:
    """A byte-level BPE and a chat template that knows tools.

    ``split_digits`` makes each digit a token, which sums need; without it " 12" can be one token,
    which is shorter where numbers are only names.

    Any text encodes and decodes to itself: bytes never seen in ``texts`` are tokens too.
    ``vocab_size`` counts the special tokens; it must be at least 300.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    if vocab_size < 300:
        raise ValueError(
            f"vocab_size must be at least 300 (256 bytes and markers), got {vocab_size}"
        )
    roles = [f"<|{r}|>" for r in ROLES]
    tok = Tokenizer(models.BPE())
    words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.pre_tokenizer = (
        pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), words])
        if split_digits
        else words
    )
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=vocab_size - len(MARKUP),
            special_tokens=[PAD, END, *roles],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    out = PreTrainedTokenizerFast(
        tokenizer_object=tok,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=roles,
        model_max_length=model_max_length,
        clean_up_tokenization_spaces=False,
    )
    out.add_tokens(list(MARKUP))
    out.chat_template = CHAT_TEMPLATE
    out.padding_side = "left"
    return out


def build_model(
    tokenizer: Any, size: str = "tiny", *, seed: int = 0, max_positions: int = 2048
) -> LlamaForCausalLM:
    """A freshly initialised ``LlamaForCausalLM``; the same seed gives the same weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    if size not in SIZES:
        raise ValueError(f"unknown model size {size!r}; sizes: {', '.join(SIZES)}")
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=max_positions,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        tie_word_embeddings=True,
        attention_dropout=0.0,
        initializer_range=0.05,
        **SIZES[size],
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    return model.float().eval()


def _quiet() -> None:
    """No progress bars of the library: a checkpoint is written every few seconds."""
    from transformers.utils import logging

    logging.disable_progress_bar()


def save(model: Any, tokenizer: Any, path: str | Path) -> None:
    """Write model and tokenizer in the transformers layout."""
    _quiet()
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)


def load(path: str | Path, *, dtype: Any = None, device: str = "cpu") -> tuple[Any, Any]:
    """Model and tokenizer from a local directory; never contacts a hub, never runs remote code."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    _quiet()
    path = Path(path)
    if not (path / "config.json").is_file():
        raise FileNotFoundError(f"{path}: expected a directory with config.json (a saved model)")
    tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
    tokenizer.padding_side = "left"
    model = AutoModelForCausalLM.from_pretrained(path, local_files_only=True, dtype=dtype)
    model.to(device)  # type: ignore[arg-type]
    return model.eval(), tokenizer
