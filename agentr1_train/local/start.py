"""Where a run starts: the model, and the episodes its cold start learns from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentr1_envs.seeding import derive_int
from agentr1_envs.transitions import Episode, group_episodes, read_transitions

from ..prompts import PromptEncoder, tokenize_episode
from . import tiny
from .data import env_maker, env_spec, expert_episodes
from .forward import Chain
from .progress import Progress
from .sft import examples


def written_episodes(config: Mapping[str, Any], progress: Progress) -> list[Episode]:
    """The cold start's episodes: from a transitions file, or played by the scripted policy."""
    settings = config["agentr1"]["cold_start"]
    if settings["data"]:
        collected = group_episodes(read_transitions(settings["data"]))
        solved = [e for e in collected if e.success]
        if not solved:
            raise ValueError(f"{settings['data']}: expected episodes that succeeded, found none")
        return solved
    shares = settings["policy"]
    shares = {shares: 1.0} if isinstance(shares, str) else dict(shares)
    total = sum(shares.values())
    if not total > 0 or min(shares.values()) < 0:
        raise ValueError(f"cold_start.policy: expected positive shares, got {shares}")
    count = int(settings["episodes"])
    progress.start("expert episodes", count)
    episodes: list[Episode] = []
    for name, share in shares.items():
        # Every policy plays tasks of its own, so that none is shown solved in two ways.
        episodes += expert_episodes(
            env_spec(config, split=settings["split"], **(settings["kwargs"] or {})),
            max(round(count * share / total), 1),
            policy=name,
            seed=derive_int("cold start", config["agentr1"]["seed"], name, bits=31),
            on_episode=lambda e: progress.advance("expert episodes"),
        )
    progress.finish("expert episodes")
    for i, episode in enumerate(episodes):  # unique among the policies
        episode.episode_id = f"written/{i}"
        for t in episode.transitions:
            t.episode_id = episode.episode_id
    return episodes


def prepare_model(
    config: Mapping[str, Any], *, device: str, dtype: Any, progress: Progress
) -> tuple[Any, Any, list[Episode] | None]:
    """Model, tokenizer, and the episodes that were needed to make a tokenizer (else None).

    ``actor_rollout_ref.model.path`` is a saved model's directory, or a size of `tiny.SIZES`: then
    the tokenizer is trained on the episodes' texts and the model starts from random weights.
    """
    path = str(config["actor_rollout_ref"]["model"]["path"])
    teacher = config["agentr1"]["distill"]["teacher"]
    if path in tiny.SIZES and teacher:
        # A student made from nothing speaks its teacher's tokens.
        _, tokenizer = tiny.load(teacher)
        length = int(tokenizer.model_max_length)
        model = tiny.build_model(
            tokenizer, path, seed=int(config["agentr1"]["seed"]), max_positions=min(length, 1 << 15)
        )
        model.to(device)  # type: ignore[arg-type]
        return model, tokenizer, None
    if path not in tiny.SIZES:
        if not Path(path).is_dir():
            sizes = ", ".join(tiny.SIZES)
            raise FileNotFoundError(f"model={path}: expected a saved model's folder, or {sizes}")
        return *tiny.load(path, dtype=dtype, device=device), None
    settings = config["agentr1"]["tiny"]
    episodes = written_episodes(config, progress)
    length = int(settings["context_length"])
    tokenizer = tiny.train_tokenizer(
        texts(episodes),
        int(settings["vocab_size"]),
        model_max_length=length,
        split_digits=bool(settings["split_digits"]),
    )
    model = tiny.build_model(
        tokenizer, path, seed=int(config["agentr1"]["seed"]), max_positions=length
    )
    model.to(device)  # type: ignore[arg-type]
    return model, tokenizer, episodes


def texts(episodes: Sequence[Episode]) -> Iterable[str]:
    """Every text a model meets in these episodes, once."""
    seen: set[str] = set()
    for episode in episodes:
        for t in episode.transitions:
            for text in (*(m.get("content") or "" for m in t.observation), t.action, t.feedback):
                if text not in seen:
                    seen.add(text)
                    yield text


def cold_start_data(
    config: Mapping[str, Any],
    tokenizer: Any,
    episodes: list[Episode] | None,
    progress: Progress,
) -> list[Chain]:
    """Training sequences of the cold start."""
    if episodes is None:
        episodes = written_episodes(config, progress)
    encoder = PromptEncoder(tokenizer)
    tools, splice = _tools(config)
    progress.start("tokenizing", len(episodes))
    for episode in episodes:
        if not len(episode.transitions[0].prompt_ids):
            tokenize_episode(encoder, episode, tools(episode.agent_id), splice=splice)
        progress.advance("tokenizing")
    progress.finish("tokenizing")
    return examples([t for e in episodes for t in e.transitions])


def _tools(config: Mapping[str, Any]) -> tuple[Callable[[str], Sequence[Any]], bool]:
    """What gives an agent's tools, and whether states are spliced."""
    spec = env_spec(config)
    if spec.get("agents"):
        from agentr1_wrappers import make_context

        from ..rollout_parallel import parallel_maker

        context = make_context(spec["context"]) if spec.get("context") else None
        return parallel_maker(spec)().tools, bool(getattr(context, "splices", False))
    env = env_maker(spec)()
    tools = getattr(env.unwrapped, "tools", None) or ()
    if config["agentr1"]["env"].get("tool_prompt"):
        tools = ()
    splice = bool(getattr(env.context, "splices", True))
    env.close()
    return (lambda agent: tools), splice
