"""Texts that repeat themselves: copying code verbatim, and code of one structure over and over; beside plain decoding and a peer's prompt lookup."""

from __future__ import annotations

from dataclasses import dataclass, field

from headwater.bench.intervals import Ratio, paired
from headwater.bench.peer import Peer
from headwater.bench.speculate_cost import Bench
from headwater.core.drafting import DraftCounts
from headwater.core.errors import HeadwaterError
from headwater.core.params import SamplingParams
from headwater.engine.expand import GenerateRequest

_CODE = '''def area(width, height):
    """Return the area of a rectangle, in square units of its sides."""
    if width < 0 or height < 0:
        raise ValueError("a side cannot be negative")
    return width * height


class Account:
    def __init__(self, owner, balance=0):
        self.owner = owner
        self.balance = balance
        self.history = []

    def deposit(self, amount, note=""):
        self.balance += amount
        self.history.append(("deposit", amount, note))

    def withdraw(self, amount, note=""):
        if amount > self.balance:
            raise ValueError("not enough money")
        self.balance -= amount
        self.history.append(("withdraw", amount, note))
'''
_TEST = '''def test_{name}_of_two_numbers():
    """The {name} is what the table says."""
    for a, b, expected in TABLE["{name}"]:
        assert calculator.{name}(a, b) == expected, f"{name}({{a}}, {{b}})"


'''
TEXTS = {
    "verbatim copy": f"{_CODE}\n\n# the same again\n{_CODE}\n\n# the same again\n{_CODE[: len(_CODE) // 8]}",
    "repeated structure": "".join(_TEST.format(name=n) for n in ("sum", "difference", "product", "quotient", "power")) + "def test_",
}


@dataclass(slots=True)
class Copied:
    """Decoding seconds of `tokens` tokens, round by round; counts of the drafted runs; same: all runs of ours said the same tokens; failed: what
    the peer said when it could not go on."""

    plain: list[float] = field(default_factory=list)
    drafted: list[float] = field(default_factory=list)
    peer: list[float] = field(default_factory=list)
    counts: DraftCounts = field(default_factory=DraftCounts)
    same: bool = True
    failed: str = ""

    @property
    def ratio(self) -> Ratio:
        return paired(self.plain, self.drafted)


def copying(bench: Bench, text: str, tokens: int, rounds: int, draft: str, peer: Peer | None = None) -> Copied:
    """Plain, drafted and the peer in turn, who of ours begins alternating; the prompt is known to all before the clock starts."""
    prompt = bench.llm.tokenizer.encode(text)
    want = GenerateRequest(prompt, SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True))
    bench.draft_with("none")
    expected = bench.run([want]).ids
    out, counts = Copied(), []
    for i in range(max(rounds, 2)):
        for spec in ("none", draft) if i % 2 else (draft, "none"):
            bench.draft_with(spec)
            run = bench.run([want])
            (out.plain if spec == "none" else out.drafted).append(run.seconds)
            out.same = out.same and run.ids == expected
            if run.answers[0].usage.drafts is not None:
                counts.append(run.answers[0].usage.drafts)
        if peer is not None and not out.failed:
            try:
                out.peer.append(peer.ask("copy", ids=prompt, tokens=tokens)["seconds"])
            except HeadwaterError as e:
                out.failed = str(e)
    out.counts = DraftCounts.total(counts) or DraftCounts()
    return out
