"""The inline executor: a step runs in `submit`, on the caller's thread."""

from __future__ import annotations

from headwater.core.executor import Caps
from headwater.core.plan import StepPlan, StepResult
from headwater.worker.masks import Matcher
from headwater.worker.runner import Runner


class InlineExecutor:
    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self._result: StepResult | None = None

    def caps(self) -> Caps:
        return self.runner.forward.caps

    def add_mask(self, mask: str, matcher: Matcher) -> None:
        self.runner.masks.add(mask, matcher)

    def forget(self, request_id: str) -> None:
        self.runner.forget(request_id)

    def submit(self, plan: StepPlan) -> None:
        self._result = self.runner.run(plan)

    def collect(self, timeout: float | None = None) -> StepResult | None:
        result, self._result = self._result, None
        return result

    def close(self) -> None:
        self.runner.forward.close()
