"""Transitions of the step-level MDP, and their Parquet store.

One `Transition` is one step: the whole input of the policy, exactly what it sampled, what the
environment answered, and the reward. An `Episode` is the steps of one agent in one episode. Files
hold one row a step, so that a run can be replayed and trained from its files alone.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from agentr1_envs.errors import TaskDataError
from agentr1_envs.task_files import atomic_write, encodable

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 1

Message = dict[str, Any]


_NO_IDS = np.empty(0, np.int32)
_NO_LOGPROBS = np.empty(0, np.float32)


# One array without elements serves all: there is nothing in it to share.
def _no_ids() -> npt.NDArray[np.int32]:
    return _NO_IDS


def _no_logprobs() -> npt.NDArray[np.float32]:
    return _NO_LOGPROBS


@dataclass(slots=True)
class Transition:
    """One step of one agent.

    Attributes:
        episode_id: Unique in a run.
        agent_id: Which agent of a multi-agent episode; ``"agent"`` where there is one.
        step: 0-based index of the step in its episode.
        group_id: Equal for episodes of the same task and seed that are compared with each other.
        task_id: The task's id.
        env_id: Gymnasium id of the environment.
        observation: The state: the messages the policy was given.
        prompt_ids: int32 [P]: exactly what the policy was fed; empty without a tokenizer.
        action: The reply as text, special tokens kept, the end-of-turn token aside.
        response_ids: int32 [R]: exactly what the policy sampled.
        response_logprobs: float32 [R]: log-probability of each sampled token, or empty.
        feedback: What the environment answered.
        reward: Reward of this step.
        terminated: The task ended by its own rules at this step.
        truncated: A limit ended the episode at this step.
        stop_reason: Why the episode ended; None before its last step.
        next_observation: The next state (messages); at the end what it would have been, which is
            what a bootstrap value needs. Empty where the end left no state.
        next_prompt_ids: int32: the next state's ids, kept for truncated ends only.
        anchor: Short name of the task state the action was taken in (GiGPO).
        agent_error: ``{"kind", "message"}`` or None.
        metrics: Numbers worth logging.
        policy_version: Number of updates the sampling policy had seen; -1 if unknown.
        valid: False when the episode failed for a reason that is not the agent's. Such rows take
            no part in group statistics and in the loss.
        success: At the end of an episode: whether the task was solved.
        score: At the end of an episode: in [0, 1].
        advantage: Filled in by training, for inspection; None before.
        extra: Further JSON values, such as the fault's message of an invalid episode.
    """

    episode_id: str
    step: int
    task_id: str
    env_id: str
    observation: tuple[Message, ...] = ()
    action: str = ""
    feedback: str = ""
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    stop_reason: str | None = None
    next_observation: tuple[Message, ...] = ()
    agent_id: str = "agent"
    group_id: str = ""
    anchor: str = ""
    prompt_ids: npt.NDArray[np.int32] = field(default_factory=_no_ids)
    response_ids: npt.NDArray[np.int32] = field(default_factory=_no_ids)
    response_logprobs: npt.NDArray[np.float32] = field(default_factory=_no_logprobs)
    next_prompt_ids: npt.NDArray[np.int32] = field(default_factory=_no_ids)
    agent_error: dict[str, str] | None = None
    metrics: dict[str, Any] = field(default_factory=dict)
    policy_version: int = -1
    valid: bool = True
    success: bool | None = None
    score: float | None = None
    advantage: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Episode:
    """The steps of one agent in one episode.

    Attributes:
        transitions: In order of `step`. Empty when the episode failed before its first step.
        valid: False when it failed for a reason that is not the agent's.
        fault: That reason.
        seconds: ``{"environment": .., "generation": .., "queue": ..}`` spent on it.
    """

    episode_id: str
    task_id: str
    env_id: str
    group_id: str = ""
    agent_id: str = "agent"
    transitions: list[Transition] = field(default_factory=list)
    valid: bool = True
    fault: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def ret(self) -> float:
        """The undiscounted return: the sum of the rewards."""
        return float(sum(t.reward for t in self.transitions))

    @property
    def finished(self) -> bool:
        """Whether the last step ended the episode."""
        return bool(self.transitions) and (
            self.transitions[-1].terminated or self.transitions[-1].truncated
        )

    @property
    def success(self) -> bool:
        """Whether the task was solved; False for an unfinished or invalid episode."""
        return self.valid and bool(self.transitions) and bool(self.transitions[-1].success)

    @property
    def score(self) -> float:
        """The score at the end, in [0, 1]; 0 for an unfinished episode."""
        return float(self.transitions[-1].score or 0.0) if self.transitions else 0.0

    @property
    def stop_reason(self) -> str | None:
        """Why it ended; ``"fault"`` when it is invalid."""
        if not self.valid:
            return "fault"
        return self.transitions[-1].stop_reason if self.transitions else None


_JSON = ("observation", "next_observation", "agent_error", "metrics", "extra")
_TEXT = ("episode_id", "agent_id", "group_id", "task_id", "env_id", "action", "feedback", "anchor")


def arrow_schema(metadata: Mapping[str, str] | None = None) -> pa.Schema:
    """The Arrow schema of a transitions file; `metadata` is stored with it."""
    import pyarrow as pa

    fields = [
        *(pa.field(name, pa.string(), nullable=False) for name in _TEXT),
        pa.field("step", pa.int32(), nullable=False),
        pa.field("reward", pa.float64(), nullable=False),
        pa.field("terminated", pa.bool_(), nullable=False),
        pa.field("truncated", pa.bool_(), nullable=False),
        pa.field("stop_reason", pa.string()),
        pa.field("prompt_ids", pa.list_(pa.int32()), nullable=False),
        pa.field("response_ids", pa.list_(pa.int32()), nullable=False),
        pa.field("response_logprobs", pa.list_(pa.float32()), nullable=False),
        pa.field("next_prompt_ids", pa.list_(pa.int32()), nullable=False),
        pa.field("policy_version", pa.int64(), nullable=False),
        pa.field("valid", pa.bool_(), nullable=False),
        pa.field("success", pa.bool_()),
        pa.field("score", pa.float64()),
        pa.field("advantage", pa.float64()),
        *(pa.field(name, pa.string(), nullable=False) for name in _JSON),
    ]
    stored = {"agentr1_schema": str(SCHEMA_VERSION), **(metadata or {})}
    return pa.schema(fields, metadata={k.encode(): v.encode() for k, v in stored.items()})


def write_transitions(
    path: str | os.PathLike[str],
    transitions: Iterable[Transition],
    metadata: Mapping[str, str] | None = None,
) -> int:
    """Write transitions as Parquet (zstd), one row a step; atomic.

    Args:
        metadata: Versions, git hash, panel hash, seeds: whatever the run should be known by.

    Returns:
        The number of rows.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema, count = arrow_schema(metadata), 0
    with atomic_write(path) as handle:
        with pq.ParquetWriter(handle, schema, compression="zstd") as writer:
            for chunk in _chunks(transitions, 4096):
                writer.write_table(pa.table(_columns(chunk, schema), schema=schema))
                count += len(chunk)
    return count


def _chunks(items: Iterable[Transition], size: int) -> Iterable[list[Transition]]:
    chunk: list[Transition] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _columns(rows: Sequence[Transition], schema: pa.Schema) -> dict[str, Any]:
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for spec in schema:
        values = [getattr(row, spec.name) for row in rows]
        if spec.name in _JSON:
            texts = [json.dumps(value, ensure_ascii=False) for value in values]
            columns[spec.name] = pa.array([encodable(t) for t in texts], spec.type)
        elif pa.types.is_list(spec.type):
            # Built from one flat array: a Python object for each token would cost fifty times more.
            lengths = np.array([0] + [len(value) for value in values], np.int32)
            dtype = spec.type.value_type.to_pandas_dtype()
            flat = np.concatenate([np.asarray(v, dtype) for v in values])
            columns[spec.name] = pa.ListArray.from_arrays(
                pa.array(np.cumsum(lengths, dtype=np.int32)), pa.array(flat, spec.type.value_type)
            )
        elif spec.type == pa.string():
            columns[spec.name] = pa.array(
                [None if v is None else encodable(v) for v in values], spec.type
            )
        else:
            columns[spec.name] = pa.array(values, spec.type)
    return columns


def read_transitions(path: str | os.PathLike[str]) -> list[Transition]:
    """The transitions of a file, in its order.

    Raises:
        TaskDataError: The file is no transitions file, or of another schema version.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Not read_table: it takes a folder for a data set and `a=1` in a path for a column.
        table = pq.ParquetFile(path).read()
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such file") from None
    except (pa.ArrowException, OSError) as error:  # Arrow calls a damaged page an OSError
        message = str(error).partition("\n")[0]
        raise TaskDataError(str(path), f"a readable Parquet file ({message})") from None
    version = (table.schema.metadata or {}).get(b"agentr1_schema", b"").decode()
    if version != str(SCHEMA_VERSION):
        raise TaskDataError(
            str(path), f"transitions of schema version {SCHEMA_VERSION}", field="agentr1_schema",
            value=version,
        )  # fmt: skip
    names = [spec.name for spec in arrow_schema()]
    columns: dict[str, list[Any]] = {}
    for name in names:
        column = table.column(name)
        if pa.types.is_list(column.type):
            columns[name] = _arrays(column)
        elif name in _JSON:
            columns[name] = [json.loads(text) for text in column.to_pylist()]
        else:
            columns[name] = column.to_pylist()
    result = []
    for values in zip(*(columns[name] for name in names), strict=True):
        row = Transition(**dict(zip(names, values, strict=True)))
        row.observation = tuple(row.observation)
        row.next_observation = tuple(row.next_observation)
        result.append(row)
    return result


def _arrays(column: pa.ChunkedArray) -> list[npt.NDArray[Any]]:
    arrays: list[npt.NDArray[Any]] = []
    for chunk in column.chunks:
        flat = chunk.values.to_numpy(zero_copy_only=False)
        offsets = chunk.offsets.to_numpy()
        arrays += [flat[a:b].copy() for a, b in itertools.pairwise(offsets)]
    return arrays


def read_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """What was stored with a transitions file."""
    import pyarrow.parquet as pq

    stored = pq.read_schema(path).metadata or {}
    return {k.decode(): v.decode() for k, v in stored.items() if k != b"ARROW:schema"}


def group_episodes(transitions: Iterable[Transition]) -> list[Episode]:
    """Episodes made again of their transitions, in the order of their first steps."""
    episodes: dict[tuple[str, str], Episode] = {}
    for t in transitions:
        episode = episodes.get((t.episode_id, t.agent_id))
        if episode is None:
            episode = Episode(t.episode_id, t.task_id, t.env_id, t.group_id, t.agent_id)
            episodes[t.episode_id, t.agent_id] = episode
        episode.transitions.append(t)
        episode.valid = episode.valid and t.valid
        if not t.valid:
            episode.fault = t.extra.get("fault", episode.fault)
    for episode in episodes.values():
        episode.transitions.sort(key=lambda t: t.step)
    return list(episodes.values())
