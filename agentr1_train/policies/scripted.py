"""Scripted policies (the environments' experts), a random one, and the table of policy names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from agentr1_envs.seeding import derive

from .base import GenerateRequest, Generation, Policy


class ScriptedPolicy(Policy):
    """Plays a scripted expert of the environment's table entry.

    Args:
        name: ``"expert"`` (sees the task's solution), ``"observer"`` (sees what a player sees) or
            another name of the entry's ``experts``.
        env_id: the environment's id; taken from each environment where None.
    """

    looks_inside: ClassVar[bool] = True

    def __init__(self, name: str = "expert", env_id: str | None = None) -> None:
        self.script, self.env_id = name, env_id
        self._players: dict[str, Any] = {}

    def start_episode(
        self, episode_id: str, env: Any, observation: str, info: Mapping[str, Any]
    ) -> None:
        player = expert_class(self.env_id or env_id_of(env), self.script)(env)
        player.reset(_said(observation, info), dict(info))
        self._players[episode_id] = player

    async def generate(self, request: GenerateRequest) -> Generation:
        player = self._players[request.episode_id]
        said = _said(request.observation, request.info)
        return Generation(player.act(said, dict(request.info)))

    def end_episode(self, episode_id: str) -> None:
        self._players.pop(episode_id, None)


def _said(observation: Any, info: Mapping[str, Any]) -> Any:
    """What the environment itself said: scripts read text, also behind `ChatPrompt`."""
    return observation if isinstance(observation, str) else info.get("feedback", observation)


class RandomPolicy(Policy):
    """Picks among ``info["admissible_actions"]``; where there are none, says a random number.

    An environment whose replies hold more than the action has ``format_action(action)``.
    """

    looks_inside: ClassVar[bool] = True

    def __init__(self) -> None:
        self._formats: dict[str, Callable[[str], str]] = {}

    def start_episode(
        self, episode_id: str, env: Any, observation: Any, info: Mapping[str, Any]
    ) -> None:
        self._formats[episode_id] = getattr(env.unwrapped, "format_action", str)

    async def generate(self, request: GenerateRequest) -> Generation:
        rng = derive("random policy", request.seed, request.step)
        actions = request.info.get("admissible_actions")
        if actions:
            action = actions[int(rng.integers(len(actions)))]
            return Generation(self._formats.get(request.episode_id, str)(action))
        return Generation(str(int(rng.integers(100))))

    def end_episode(self, episode_id: str) -> None:
        self._formats.pop(episode_id, None)


def env_id_of(env: Any) -> str:
    """The Gymnasium id of an environment, wrapped or not."""
    spec = getattr(env, "spec", None) or getattr(env.unwrapped, "spec", None)
    if spec is None:
        raise ValueError(f"{env!r} has no Gymnasium id: name the environment's id")
    return spec.id


def expert_class(env_id: str, name: str) -> Any:
    """The class of a scripted policy.

    Raises:
        ValueError: the environment has no such script; the message lists those it has.
    """
    from agentr1_envs.registration import ENVS, load

    entry = ENVS.get(env_id)
    experts = entry.experts if entry else {}
    if name not in experts:
        known = ", ".join([*experts, "random"])
        raise ValueError(f"{env_id} has no policy {name!r}; expected one of: {known}")
    return load(experts[name])


def make_policy(
    spec: str,
    *,
    env_id: str | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    **kwargs: Any,
) -> Policy:
    """A policy from its name on the command line.

    Args:
        spec: ``expert``, ``observer`` (or another script of the environment), ``random``,
            ``openai:URL#MODEL`` or ``transformers:PATH``.
        env_id: the environment, for scripts.
        temperature: 0 is greedy. None: the server's default, greedy for transformers.
        max_tokens: longest reply.

    Raises:
        ValueError: the name says nothing we know.
    """
    kind, colon, rest = spec.partition(":")
    sampling: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens}
    sampling = {k: v for k, v in sampling.items() if v is not None}
    if colon and kind == "openai":
        from .openai import OpenAIPolicy

        url, _, model = rest.partition("#")
        return OpenAIPolicy(url, model or None, **sampling, **kwargs)
    if colon and kind == "transformers":
        from .transformers import TransformersPolicy

        return TransformersPolicy.from_path(rest, **{"temperature": 0.0, **sampling}, **kwargs)
    if colon and kind == "vllm":
        from .vllm import VLLMPolicy

        return VLLMPolicy(rest, **sampling, **kwargs)
    if colon:
        raise ValueError(
            f"policy {spec!r}: expected expert, observer, random, openai:URL#MODEL, "
            "transformers:PATH or vllm:PATH"
        )
    if spec == "random":
        return RandomPolicy()
    if env_id is not None:
        expert_class(env_id, spec)  # fails here, before any episode starts
    return ScriptedPolicy(spec, env_id)
