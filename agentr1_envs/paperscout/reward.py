"""The process reward of PaperScout: what one search or one expansion is worth.

Only papers that the call added count. Their relevance comes from a selector; those below `keep`
are dropped; the best `top` of the others are summed and the price of the call is taken off. With
`discrete` each of the best `top` counts 1 when its relevance reaches `discrete_threshold`, and
nothing otherwise. A call that repeats a query, names an unknown paper or expands one twice costs
`invalid`; a call that adds nothing is worth 0, without its price.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentr1_envs.arguments import flag, number, whole


@dataclass(frozen=True, slots=True)
class RewardRule:
    """The constants of the process reward; the defaults are PaperScout's own."""

    top: int = 3
    keep: float = 0.01
    search_cost: float = 0.1
    expand_cost: float = 0.05
    invalid: float = -0.5
    discrete: bool = False
    discrete_threshold: float = 0.4

    def __post_init__(self) -> None:
        whole("top", self.top)
        number("keep", self.keep)
        number("discrete_threshold", self.discrete_threshold)
        for name in ("search_cost", "expand_cost", "invalid"):
            # Of either sign: a price below 0 and a mild penalty are somebody's experiment.
            number(name, getattr(self, name), None)
        flag("discrete", self.discrete)

    def call(self, kind: str, relevances: Iterable[float]) -> float:
        """Reward of a valid call of ``kind`` ("search" or "expand").

        Args:
            relevances: the selector's figures, in [0, 1], of the papers that were not in the
                pool before this call; those below `keep` may be among them.
        """
        kept = sorted([r for r in relevances if r >= self.keep], reverse=True)
        return self.gain(kind, kept[: self.top])

    def gain(self, kind: str, best: Sequence[float]) -> float:
        """The same, of the `top` best relevances among those kept."""
        if not best:
            return 0.0
        if self.discrete:
            gain = float(sum(r >= self.discrete_threshold for r in best))
        else:
            gain = sum(best)
        return gain - (self.search_cost if kind == "search" else self.expand_cost)
