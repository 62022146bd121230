"""A tokenizer whose decode and encode are not each other's inverse, with a chat template."""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

TEMPLATE = (
    "{%- for m in messages -%}<|{{ m.role }}|>{{ m.content }}<|end|>{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}"
)


def odd_tokenizer() -> PreTrainedTokenizerFast:
    """ "ab" is one token and also "a" then "b": sampled ids [a, b] encode again as [ab]."""
    specials = ["<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {t: i for i, t in enumerate([*specials, *alphabet, "ab", "abab"])}
    tok = Tokenizer(models.BPE(vocab=vocab, merges=[("a", "b"), ("ab", "ab")]))
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(False)
    tok.decoder = decoders.ByteLevel()
    out = PreTrainedTokenizerFast(
        tokenizer_object=tok,
        pad_token="<|pad|>",
        eos_token="<|end|>",
        additional_special_tokens=specials[2:],
        clean_up_tokenization_spaces=False,
    )
    out.chat_template = TEMPLATE
    return out
