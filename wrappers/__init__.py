"""Wrappers and context rules around the environments of agentr1_envs."""

from agentr1_wrappers.agent_env import make_agent_env, make_context, reset_options
from agentr1_wrappers.budget import ServerSummary, Summarise, TokenBudget
from agentr1_wrappers.chat_prompt import ChatPrompt
from agentr1_wrappers.context import (
    Append,
    ContextInput,
    ContextOverflow,
    ContextRule,
    Turn,
    Window,
)
from agentr1_wrappers.gym_text import ToGymText
from agentr1_wrappers.penalties import InvalidActionPenalty
from agentr1_wrappers.record import RecordTransitions
from agentr1_wrappers.rewrite import Rewrite, SearchState

__all__ = [
    "Append",
    "ChatPrompt",
    "ContextInput",
    "ContextOverflow",
    "ContextRule",
    "InvalidActionPenalty",
    "RecordTransitions",
    "Rewrite",
    "SearchState",
    "ServerSummary",
    "Summarise",
    "ToGymText",
    "TokenBudget",
    "Turn",
    "Window",
    "make_agent_env",
    "make_context",
    "reset_options",
]
