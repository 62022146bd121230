"""Policies: whatever answers a state with an action. See `base.Policy`."""

from .base import GenerateRequest, Generation, Policy, PolicyFault
from .scripted import ScriptedPolicy, make_policy

__all__ = [
    "GenerateRequest",
    "Generation",
    "Policy",
    "PolicyFault",
    "ScriptedPolicy",
    "make_policy",
]
