"""`make_agent_env`: the one factory of agent environments, from plain data."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
from agentr1_wrappers.budget import Summarise, TokenBudget
from agentr1_wrappers.chat_prompt import ChatPrompt
from agentr1_wrappers.context import Append, ContextRule, Window
from agentr1_wrappers.penalties import InvalidActionPenalty
from agentr1_wrappers.rewrite import Rewrite

from agentr1_envs.registration import ENVS, load

KEYS = frozenset(
    {
        "env_id",
        "kwargs",
        "options",
        "context",
        "tool_format",
        "wrappers",
        "augment",
        "feedback_role",
        "tool_prompt",
        "system_prompt",
    }
)
#: Agent-R1's sets of tools, and the environments that have them. Its `env_step` is not here: two
#: of its tasks share that name, so such rows must name their environment.
AGENT_R1_TOOLS: dict[frozenset[str], tuple[str, dict[str, Any]]] = {
    frozenset({"calc_gsm8k_reward"}): ("AgentR1/GSM8KTool-v0", {"reward_tool": True}),
    frozenset({"calculator"}): ("AgentR1/GSM8KTool-v0", {}),
    frozenset({"calculator", "calc_gsm8k_reward"}): (
        "AgentR1/GSM8KTool-v0",
        {"reward_tool": True},
    ),
    frozenset({"search"}): ("AgentR1/HotpotQA-v0", {}),
    frozenset({"search", "expand"}): ("AgentR1/PaperScout-v0", {}),
}
CONTEXTS: dict[str, Callable[..., ContextRule]] = {
    "append": Append,
    "window": Window,
    "rewrite": Rewrite,
    "budget": TokenBudget,
    "summarise": Summarise,
}
WRAPPERS: dict[str, Callable[..., gym.Env[Any, Any]]] = {
    "invalid_action_penalty": InvalidActionPenalty
}


def make_context(spec: str | Mapping[str, Any] | ContextRule | None) -> ContextRule:
    """A context rule from ``"append"``, ``"window:3"`` or ``{"name": "window", "k": 3}``."""
    if spec is None:
        return Append()
    if isinstance(spec, ContextRule):
        return spec
    if isinstance(spec, str):
        name, _, value = spec.partition(":")
        arguments: list[Any] = [int(value)] if value.isascii() and value.isdigit() else []
        if value and not arguments:
            raise ValueError(f"context {spec!r}: expected name or name:number")
        keywords: dict[str, Any] = {}
    elif isinstance(spec, Mapping):
        keywords, arguments = dict(spec), []
        name = keywords.pop("name", None)
    else:
        raise ValueError(f"a context is a name or an object with 'name', got {spec!r}")
    if not isinstance(name, str) or name not in CONTEXTS:
        raise ValueError(f"unknown context {name!r}: one of {sorted(CONTEXTS)}")
    try:
        return CONTEXTS[name](*arguments, **keywords)
    except TypeError as error:  # an argument that the rule does not have or cannot use
        raise ValueError(f"context {spec!r}: {error}") from None


def translate_agent_r1(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Agent-R1's ``{"env_type": "tool", "tools": [..], "tool_format": .., "tools_kwargs": {..}}``.

    Raises:
        ValueError: The tools belong to no environment of the suite, or to several.
    """
    tools = list(spec.get("tools") or [])
    found = AGENT_R1_TOOLS.get(frozenset(tools))
    if spec.get("env_type", "tool") != "tool" or found is None:
        known = sorted(sorted(names) for names in AGENT_R1_TOOLS)
        raise ValueError(
            f"env_kwargs in Agent-R1's form: expected env_type 'tool' and the tools of one "
            f"environment among {known}, got {spec.get('env_type')!r} and {tools}; any other "
            f"environment is named by 'env_id'"
        )
    kwargs = dict(found[1])
    for tool_kwargs in (spec.get("tools_kwargs") or {}).values():
        kwargs.update(tool_kwargs or {})
    translated: dict[str, Any] = {"env_id": found[0], "kwargs": kwargs}
    if spec.get("tool_format"):
        translated["tool_format"] = spec["tool_format"]
    if spec.get("options"):
        translated["options"] = spec["options"]
    return translated


def read_spec(spec: Mapping[str, Any] | str) -> dict[str, Any]:
    """A spec from a dict or its JSON, checked; Agent-R1's form is translated."""
    if isinstance(spec, str):
        if spec in ENVS:
            spec = {"env_id": spec}
        else:
            try:
                spec = json.loads(spec)
            except json.JSONDecodeError as error:
                raise ValueError(f"env_kwargs is neither an id nor JSON: {error}") from None
    if not isinstance(spec, Mapping):
        raise ValueError(f"an environment's spec is an object, got {type(spec).__name__}")
    if "env_type" in spec:
        spec = translate_agent_r1(spec)
    unknown = sorted(spec.keys() - KEYS)
    if unknown:
        raise ValueError(f"unknown keys {unknown} in an environment's spec: {sorted(KEYS)} exist")
    if not isinstance(spec.get("env_id"), str):
        raise ValueError(f"an environment's spec needs an 'env_id', got {spec.get('env_id')!r}")
    for key, kind, words in _FORMS:
        value = spec.get(key)
        if value is not None and (isinstance(value, str) or not isinstance(value, kind)):
            raise ValueError(f"{key!r} in an environment's spec is {words}, got {value!r}")
    return dict(spec)


# A configuration's own containers count too, hence the abstract types.
_FORMS: tuple[tuple[str, type, str], ...] = (
    ("kwargs", Mapping, "an object"),
    ("options", Mapping, "an object"),
    ("wrappers", Sequence, "a list"),
    ("augment", Sequence, "a list"),
)


def make_agent_env(spec: Mapping[str, Any] | str) -> ChatPrompt:
    """An environment whose observations are a model's input, from plain (JSON) data.

    Local training, verl, evaluation and flows all build their environments here.

    Args:
        spec: ``env_id`` (any Gymnasium id with text spaces), and optionally ``kwargs`` (of
            `gymnasium.make`), ``context`` (see `make_context`), ``tool_format``, ``wrappers`` (a
            list of ``{"name", ...}`` or of ``"module:Class"``), and ChatPrompt's ``augment``,
            ``feedback_role``, ``tool_prompt``, ``system_prompt``. ``options`` are not used here:
            they are for `reset`, see `reset_options`.

    Raises:
        ValueError: The spec has an unknown key or value.
    """
    spec = read_spec(spec)
    kwargs = dict(spec.get("kwargs") or {})
    if spec.get("tool_format"):
        kwargs["tool_format"] = spec["tool_format"]
    env = gym.make(spec["env_id"], **kwargs)
    for item in spec.get("wrappers") or []:
        env = _wrap(env, item)
    return ChatPrompt(
        env,
        context=make_context(spec.get("context")),
        augment=make_augmentations(spec.get("augment") or []),
        feedback_role=spec.get("feedback_role"),
        tool_prompt=bool(spec.get("tool_prompt", False)),
        system_prompt=spec.get("system_prompt"),
    )


def _wrap(env: gym.Env[Any, Any], item: Any) -> gym.Env[Any, Any]:
    """`env` in the wrapper that a spec names; nothing but a wrapper is called."""
    keywords = dict(item) if isinstance(item, Mapping) else {"name": item}
    name = keywords.pop("name", None)
    wrapper: Any = None
    if isinstance(name, str):
        wrapper = WRAPPERS.get(name)
        if wrapper is None and ":" in name:
            try:
                wrapper = load(name)
            except (ImportError, AttributeError, ValueError) as error:
                raise ValueError(f"wrapper {name!r}: {error}") from None
    # A spec is data, often a row of a file: "os:system" is a callable too.
    if not (isinstance(wrapper, type) and issubclass(wrapper, gym.Wrapper)):
        raise ValueError(
            f"unknown wrapper {name!r}: {sorted(WRAPPERS)} or 'module:Class' of a gymnasium.Wrapper"
        )
    return wrapper(env, **keywords)


def reset_options(spec: Mapping[str, Any] | str) -> dict[str, Any]:
    """The options that the spec wants its `reset` to be given."""
    return dict(read_spec(spec).get("options") or {})


def make_augmentations(names: list[Any]) -> list[Callable[..., str]]:
    """Augmentations from their names (`agentr1_wrappers.augment.AUGMENTATIONS`) or callables."""
    from agentr1_wrappers.augment import AUGMENTATIONS

    functions: list[Callable[..., str]] = []
    for name in names:
        function = name if callable(name) else AUGMENTATIONS.get(name)
        if function is None:
            raise ValueError(f"unknown augmentation {name!r}: one of {sorted(AUGMENTATIONS)}")
        functions.append(function)
    return functions
