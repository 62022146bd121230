"""The interface of a paper library, and how an environment names the one it wants."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from agentr1_envs.paperscout.papers import Paper
from agentr1_envs.task_set import TaskSource

MAX_REFERENCES = 30


class PaperLibrary(ABC):
    """Papers that can be searched, looked up, and followed along their citations.

    All environments of a process that name the same library share one object; every method may be
    called from several threads. A back end that fails raises `agentr1_envs.errors.EnvironmentFault`
    and never answers with fewer papers instead.
    """

    name: ClassVar[str]
    blocking: ClassVar[bool] = False
    """True when a call may wait for a network."""

    @property
    def hash(self) -> str:
        """Changes with the content; empty where the content cannot be known (live services)."""
        return ""

    def tasks(self, split: str) -> TaskSource | None:
        """The tasks that come with the library, None when it has none."""
        return None

    def frequency(self, term: str) -> float | None:
        """The share of papers that have an index term, in [0, 1]; None when it is not known."""
        return None

    @abstractmethod
    def search(self, query: str, k: int = 10, before: int | None = None) -> Sequence[Paper]:
        """The best ``k`` papers for a query, best first.

        Args:
            query: free text.
            k: most papers to return.
            before: YYYYMMDD; only papers dated earlier are found.
        """

    @abstractmethod
    def paper(self, identifier: str) -> Paper | None:
        """The paper of an identifier (with or without version), None when unknown."""

    @abstractmethod
    def references(
        self, identifier: str, limit: int = MAX_REFERENCES, before: int | None = None
    ) -> Sequence[Paper]:
        """The papers that a paper cites, in the order it lists them; empty when unknown."""

    @abstractmethod
    def cited_by(
        self, identifier: str, limit: int = MAX_REFERENCES, before: int | None = None
    ) -> Sequence[Paper]:
        """The papers that cite a paper, earliest first where dates are known."""
