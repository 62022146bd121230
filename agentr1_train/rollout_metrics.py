"""Counts and times of a rollout."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentr1_envs.transitions import Episode


@dataclass(slots=True)
class RolloutMetrics:
    """What a rollout did. Seconds are summed over episodes, so they exceed the wall time."""

    episodes: int = 0
    invalid: int = 0
    steps: int = 0
    agent_errors: int = 0
    wall_seconds: float = 0.0
    environment_seconds: float = 0.0
    generation_seconds: float = 0.0
    queue_seconds: float = 0.0
    wasted_seconds: float = 0.0
    faults: dict[str, int] = field(default_factory=dict)

    def add(self, episode: Episode) -> None:
        """Count an episode."""
        self.episodes += 1
        self.steps += len(episode.transitions)
        self.agent_errors += sum(t.agent_error is not None for t in episode.transitions)
        spent = episode.seconds
        self.environment_seconds += spent.get("environment", 0.0)
        self.generation_seconds += spent.get("generation", 0.0)
        self.queue_seconds += spent.get("queue", 0.0)
        if not episode.valid:
            self.invalid += 1
            self.wasted_seconds += spent.get("environment", 0.0) + spent.get("generation", 0.0)
            name = (episode.fault or "unknown").splitlines()[0][:200]
            self.faults[name] = self.faults.get(name, 0) + 1

    def as_dict(self, prefix: str = "rollout/") -> dict[str, float]:
        """Numbers for a log."""
        names = [n for n in self.__slots__ if n != "faults"]  # type: ignore[attr-defined]
        out = {prefix + n: float(getattr(self, n)) for n in names}
        out[prefix + "steps_per_second"] = self.steps / max(self.wall_seconds, 1e-9)
        return out
