"""What drafting did, for one request or in total: drafted and accepted tokens by source and by position, tokens per target pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class DraftPass(NamedTuple):
    """What one target pass of one decoding row checked: guesses, how many held, whose they were (no guesses: 0, 0, "")."""

    drafted: int
    accepted: int
    source: str


@dataclass(slots=True)
class DraftCounts:
    """passes: target passes over decoding rows (one row in one step); tokens: what they drew, accepted drafts included. by_source: source ->
    (drafted, accepted); by_position[i]: (reached, accepted) at place i of a draft, reached = all guesses before it held; lengths: draft
    length -> how often it was verified (0 = none).

    Values are replaced, never changed in place, so that another thread may take a `copy` at any time.
    """

    passes: int = 0
    tokens: int = 0
    by_source: dict[str, tuple[int, int]] = field(default_factory=dict)
    by_position: list[tuple[int, int]] = field(default_factory=list)
    lengths: dict[int, int] = field(default_factory=dict)

    def add(self, drafted: int, accepted: int, drawn: int, source: str = "") -> None:
        """One target pass of one row: `drafted` guesses of `source` were checked, the first `accepted` held, `drawn` tokens came of it."""
        self.passes += 1
        self.tokens += drawn
        self.lengths[drafted] = self.lengths.get(drafted, 0) + 1
        if not drafted:
            return
        d, a = self.by_source.get(source, (0, 0))
        self.by_source[source] = (d + drafted, a + accepted)
        places = min(accepted + 1, drafted)
        self.by_position += [(0, 0)] * (places - len(self.by_position))
        for i in range(places):
            r, a = self.by_position[i]
            self.by_position[i] = (r + 1, a + (i < accepted))

    @classmethod
    def total(cls, parts: list[DraftCounts]) -> DraftCounts | None:
        """The sum; None of nothing."""
        if not parts:
            return None
        out = cls()
        for p in parts:
            out.passes += p.passes
            out.tokens += p.tokens
            for s, (d, a) in p.by_source.items():
                before = out.by_source.get(s, (0, 0))
                out.by_source[s] = (before[0] + d, before[1] + a)
            out.by_position += [(0, 0)] * (len(p.by_position) - len(out.by_position))
            for i, (r, a) in enumerate(p.by_position):
                out.by_position[i] = (out.by_position[i][0] + r, out.by_position[i][1] + a)
            for n, times in p.lengths.items():
                out.lengths[n] = out.lengths.get(n, 0) + times
        return out

    def copy(self) -> DraftCounts:
        return DraftCounts(self.passes, self.tokens, dict(self.by_source), list(self.by_position), dict(self.lengths))

    @property
    def drafted(self) -> int:
        return sum(d for d, _ in self.by_source.values())

    @property
    def accepted(self) -> int:
        return sum(a for _, a in self.by_source.values())

    @property
    def alpha(self) -> float:
        """Accepted per drafted token (a ratio of totals: it falls when drafts grow longer, though speed may rise)."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def alphas(self) -> list[float]:
        """Acceptance by position: entry i is the chance that guess i holds, given that all before it held."""
        return [a / r if r else 0.0 for r, a in self.by_position]

    @property
    def tau(self) -> float:
        """Tokens per target pass; 1 without drafts."""
        return self.tokens / self.passes if self.passes else 0.0

    def summary(self) -> dict[str, Any]:
        """For responses and reports; numbers are plain."""
        return {
            "target_passes": self.passes, "tokens_per_pass": round(self.tau, 4),
            "drafted": {s: d for s, (d, _) in self.by_source.items()}, "accepted": {s: a for s, (_, a) in self.by_source.items()},
            "acceptance_by_position": [round(a, 4) for a in self.alphas], "draft_lengths": {str(n): k for n, k in sorted(self.lengths.items())},
        }
