"""Numbers and switches of every environment: a wrong kind is named when it is made."""

from __future__ import annotations

import inspect
import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import agentr1_envs  # noqa: F401 - registers the ids
from agentr1_envs.arguments import flag, mapping, number, share, whole
from agentr1_envs.registration import ENVS

WRONG = (math.nan, math.inf, "no", [1], {"a": 1}, 10**400)


def typed_arguments(env_id: str) -> list[tuple[str, str]]:
    """The keyword arguments of an environment that are numbers or switches, with their types."""
    found = []
    for kind in type(gym.make(env_id).unwrapped).__mro__:
        if kind is object or not kind.__module__.startswith("agentr1_envs"):
            continue
        for name, parameter in inspect.signature(kind.__init__).parameters.items():
            base = str(parameter.annotation).removesuffix(" | None")
            if base in ("int", "float", "bool"):
                found.append((name, base))
    return found


@pytest.mark.parametrize("env_id", list(ENVS))
def test_numbers_and_switches_of_a_wrong_kind(env_id: str) -> None:
    arguments = typed_arguments(env_id)
    assert {"max_steps", "error_penalty"} <= {name for name, _ in arguments}
    for name, kind in arguments:
        for value in (*WRONG, -1) if kind == "bool" else WRONG:
            with pytest.raises(ValueError, match=name):
                gym.make(env_id, **{name: value})


@pytest.mark.parametrize(
    ("env_id", "name"),
    [
        ("AgentR1/GSM8KTool-v0", "difficulty"),
        ("AgentR1/GSM8KTool-v0", "templates"),
        ("AgentR1/HotpotQA-v0", "levels"),
        ("AgentR1/HotpotQA-v0", "system_prompt"),
        ("AgentR1/ALFWorld-v0", "difficulty"),
        ("AgentR1/WebShop-v0", "result_labels"),
    ],
)
def test_names_of_a_wrong_kind(env_id: str, name: str) -> None:
    for value in (5, [1], {"a": 1}, math.nan):
        with pytest.raises(ValueError, match=name):
            gym.make(env_id, **{name: value})


def test_what_is_taken() -> None:
    assert whole("n", np.int64(3)) == 3 and flag("f", np.bool_(True)) is True
    assert number("x", -2.5, None) == -2.5 and number("x", np.float32(0.5)) == 0.5
    assert share("s", 1) == 1.0 and mapping("m", None) == {}
    given: dict[str, Any] = {"a": 1}
    assert mapping("m", given) == given and mapping("m", given) is not given
    for value in (-0.1, -(10**400), 10**400, True, "1"):
        with pytest.raises(ValueError, match="x must be a finite number of at least 0"):
            number("x", value)
