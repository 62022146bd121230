"""`TaskVectorEnv`: many environments in one process, each one's faults its own.

`gym.make_vec(id, num_envs)` uses it by default. Text environments are cheap, so one process often
beats the start-up and transport of `AsyncVectorEnv`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from agentr1_envs.errors import EnvironmentFault
from agentr1_envs.registration import ENVS, load


class TaskVectorEnv(VectorEnv[Any, Any, Any]):
    """A vector environment whose slots fail alone.

    When a slot raises `EnvironmentFault`, its observation is empty, its reward NaN (there is
    none), it is truncated, and ``info["fault"][i]`` holds the message; the other slots go on. The
    slot is reset like any that ended. With ``order="sequential"`` and no ``shard``, the slots share
    the panel out among themselves: slot i of n plays tasks i, i + n, i + 2 n, ...

    Args:
        make: ``make(**kwargs)`` gives one environment.
        num_envs: Number of slots.
        autoreset_mode: Gymnasium's modes; NEXT_STEP by default.
        max_episode_steps: The environments' `max_steps`, under the name that `make_vec` has for it.
        render_mode: The slots' render mode.
        **kwargs: Passed to each environment.
    """

    def __init__(
        self,
        make: Callable[..., gym.Env[Any, Any]],
        num_envs: int = 1,
        *,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
        **kwargs: Any,
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, got {num_envs}")
        self.num_envs = num_envs
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.render_mode = render_mode
        if max_episode_steps is not None:
            limit = kwargs.get("max_steps")
            kwargs["max_steps"] = min(limit, max_episode_steps) if limit else max_episode_steps
        share = kwargs.get("order") == "sequential" and kwargs.get("shard") is None
        self.envs = [
            make(render_mode=render_mode, **kwargs, **({"shard": (i, num_envs)} if share else {}))
            for i in range(num_envs)
        ]
        self.metadata = {**self.envs[0].metadata, "autoreset_mode": self.autoreset_mode}
        self.single_observation_space = self.envs[0].observation_space
        self.single_action_space = self.envs[0].action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._observations: list[Any] = [""] * num_envs
        self._ended = np.zeros(num_envs, np.bool_)

    def reset(
        self,
        *,
        seed: int | list[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Reset all slots, or those of ``options["reset_mask"]`` (bool, shape (num_envs,))."""
        if seed is None or isinstance(seed, int):
            seeds = [None if seed is None else seed + i for i in range(self.num_envs)]
        else:
            seeds = list(seed)
            if len(seeds) != self.num_envs:
                raise ValueError(f"{self.num_envs} seeds are needed, got {len(seeds)}")
        options = dict(options or {})
        mask = options.pop("reset_mask", None)
        if mask is None:
            mask = np.ones(self.num_envs, np.bool_)
        elif not isinstance(mask, np.ndarray) or mask.shape != (self.num_envs,):
            raise ValueError(f"reset_mask must be a bool array of shape ({self.num_envs},)")
        infos: dict[str, Any] = {}
        for i in np.flatnonzero(mask):
            infos = self._add_info(infos, self._reset_slot(int(i), seeds[i], options), int(i))
        return tuple(self._observations), infos

    def step(
        self, actions: Any
    ) -> tuple[tuple[Any, ...], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step every slot; a slot that ended follows the autoreset mode."""
        actions = list(actions)
        if len(actions) != self.num_envs:
            raise ValueError(f"{self.num_envs} actions are needed, got {len(actions)}")
        rewards = np.zeros(self.num_envs, np.float64)
        terminated = np.zeros(self.num_envs, np.bool_)
        truncated = np.zeros(self.num_envs, np.bool_)
        infos: dict[str, Any] = {}
        for i, action in enumerate(actions):
            if self._ended[i] and self.autoreset_mode == AutoresetMode.NEXT_STEP:
                infos = self._add_info(infos, self._reset_slot(i, None, {}), i)
                # A fault at reset ends the slot again; it is tried anew on the next step.
                rewards[i], truncated[i] = (np.nan, True) if self._ended[i] else (0.0, False)
                continue
            if self._ended[i]:
                raise gym.error.ResetNeeded(f"slot {i} has ended: reset it with a reset_mask")
            observation, rewards[i], terminated[i], truncated[i], info = self._step_slot(i, action)
            self._observations[i] = observation
            self._ended[i] = terminated[i] or truncated[i]
            if self._ended[i] and self.autoreset_mode == AutoresetMode.SAME_STEP:
                final = {"final_obs": observation, "final_info": info}
                infos = self._add_info(infos, final, i)
                info = self._reset_slot(i, None, {})
            infos = self._add_info(infos, info, i)
        return tuple(self._observations), rewards, terminated, truncated, infos

    def _reset_slot(self, i: int, seed: int | None, options: dict[str, Any]) -> dict[str, Any]:
        try:
            self._observations[i], info = self.envs[i].reset(seed=seed, options=options)
            self._ended[i] = False
        except EnvironmentFault as fault:
            self._observations[i], info = "", {"fault": str(fault)}
            self._ended[i] = True
        return info

    def _step_slot(self, i: int, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        try:
            observation, reward, terminated, truncated, info = self.envs[i].step(action)
        except EnvironmentFault as fault:
            info = {"fault": str(fault), "stop_reason": "fault"}
            return "", float("nan"), False, True, info
        return observation, float(reward), terminated, truncated, info

    def render(self) -> tuple[Any, ...] | None:
        """What each slot renders."""
        return tuple(env.render() for env in self.envs)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method, or get an attribute, of every slot."""
        values = (getattr(env, name) for env in self.envs)
        return tuple(value(*args, **kwargs) if callable(value) else value for value in values)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """An attribute of every slot."""
        return tuple(env.get_wrapper_attr(name) for env in self.envs)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of every slot: one value for all, or a list or tuple of one each."""
        values = values if isinstance(values, (list, tuple)) else [values] * self.num_envs
        for env, value in zip(self.envs, values, strict=True):
            env.set_wrapper_attr(name, value)

    def close_extras(self, **kwargs: Any) -> None:
        """Close every slot."""
        for env in self.envs:
            env.close()


def __getattr__(name: str) -> Callable[..., TaskVectorEnv]:
    # Gymnasium wants one string per vector entry point, "agentr1_envs.vector:<class name>"; they
    # differ only in the class they make.
    for entry in ENVS.values():
        if entry.entry_point.rpartition(":")[2] == name:
            return functools.partial(_make, entry.entry_point)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _make(entry_point: str, num_envs: int = 1, **kwargs: Any) -> TaskVectorEnv:
    return TaskVectorEnv(load(entry_point), num_envs, **kwargs)
