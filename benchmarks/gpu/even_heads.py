"""A small Llama from nothing with heads for two GPUs (SmolLM2-135M has nine and three).

python -m benchmarks.gpu.even_heads MODEL OUT
It has the tokenizer of MODEL: for the plumbing of tensor parallelism, not for learning.
"""

from __future__ import annotations

import sys


def main(model: str, out: str) -> None:
    """Write it in bfloat16."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True)
    config = LlamaConfig(
        vocab_size=-(-len(tokenizer) // 64) * 64,
        hidden_size=512,
        intermediate_size=1024,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(0)
    made = LlamaForCausalLM(config)
    made.to(torch.bfloat16).save_pretrained(out)
    tokenizer.save_pretrained(out)


if __name__ == "__main__":
    main(*sys.argv[1:3])
