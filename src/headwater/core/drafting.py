"""What drafting did, for one request or in total: drafted and accepted tokens by source and by position, tokens per target pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class DraftPass(NamedTuple):
    """What one target pass of one decoding row checked: guesses of the chain, how many of them held, whose they were (no guesses: 0, 0, "");
    branches beside it, their guesses behind the place where each leaves the chain, how many of those held."""

    drafted: int
    accepted: int
    source: str
    branches: int = 0
    branch_drafted: int = 0
    branch_accepted: int = 0

    @property
    def held(self) -> int:
        """Guesses that held, of chain and branches."""
        return self.accepted + self.branch_accepted


@dataclass(slots=True)
class DraftCounts:
    """passes: target passes over decoding rows (one row in one step); tokens: what they drew, accepted drafts included. by_source: source ->
    (drafted, accepted), those of branches under `<source>_branch`; by_position[i]: (reached, accepted) at place i of a draft, reached = all guesses
    before it held, on the chain or the branch that held longest; lengths: length of the chain -> how often it was verified (0 = none); branches:
    how many were verified beside chains, and how many of them held longer than their chain.

    Values are replaced, never changed in place, so that another thread may take a `copy` at any time.
    """

    passes: int = 0
    tokens: int = 0
    by_source: dict[str, tuple[int, int]] = field(default_factory=dict)
    by_position: list[tuple[int, int]] = field(default_factory=list)
    lengths: dict[int, int] = field(default_factory=dict)
    branches: tuple[int, int] = (0, 0)

    def add(self, one: DraftPass, drawn: int) -> None:
        """One target pass of one row, of which `drawn` tokens came."""
        self.passes += 1
        self.tokens += drawn
        drafted = one.drafted
        self.lengths[drafted] = self.lengths.get(drafted, 0) + 1
        if not drafted:
            return
        self._count(one.source, drafted, one.accepted)
        if one.branches:
            self._count(f"{one.source}_branch", one.branch_drafted, one.branch_accepted)
            self.branches = (self.branches[0] + one.branches, self.branches[1] + (one.branch_accepted > 0))
        accepted = one.held
        places = min(accepted + 1, drafted)
        self.by_position += [(0, 0)] * (places - len(self.by_position))
        for i in range(places):
            r, a = self.by_position[i]
            self.by_position[i] = (r + 1, a + (i < accepted))

    def _count(self, source: str, drafted: int, accepted: int) -> None:
        d, a = self.by_source.get(source, (0, 0))
        self.by_source[source] = (d + drafted, a + accepted)

    @classmethod
    def total(cls, parts: list[DraftCounts]) -> DraftCounts | None:
        """The sum; None of nothing."""
        if not parts:
            return None
        out = cls()
        for p in parts:
            out.passes += p.passes
            out.tokens += p.tokens
            out.branches = (out.branches[0] + p.branches[0], out.branches[1] + p.branches[1])
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
        return DraftCounts(self.passes, self.tokens, dict(self.by_source), list(self.by_position), dict(self.lengths), self.branches)

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
        out: dict[str, Any] = {
            "target_passes": self.passes, "tokens_per_pass": round(self.tau, 4),
            "drafted": {s: d for s, (d, _) in self.by_source.items()}, "accepted": {s: a for s, (_, a) in self.by_source.items()},
            "acceptance_by_position": [round(a, 4) for a in self.alphas], "draft_lengths": {str(n): k for n, k in sorted(self.lengths.items())},
        }
        if self.branches[0]:
            out["branches"] = {"verified": self.branches[0], "held": self.branches[1]}
        return out
