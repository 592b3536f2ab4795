"""When an engine process counts as dead: no heartbeat, or work that makes no progress."""

from __future__ import annotations

from dataclasses import dataclass

BEAT_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Deadlines:
    """beat: seconds without a sign of life; the beat has its own thread, so a long native step does not stop it. step: seconds without a
    finished step while work waits, or `steps` times what the step was predicted to take where that is more."""

    beat: float = 10.0
    step: float = 10.0
    steps: float = 10.0

    def verdict(self, silent: float, step_age: float, predicted: float = 0.0) -> str | None:
        """silent: seconds since the last frame; step_age, predicted: `EngineStats.last_step_age` and `.step_seconds`. -> why it is dead, or None."""
        if silent > self.beat:
            return f"the engine process gave no sign of life for {silent:.0f} s"
        if step_age > max(self.step, self.steps * predicted):
            return f"the engine process finished no step for {step_age:.0f} s"
        return None


def restart_delay(deaths: int) -> float:
    """Seconds to wait before the next start after so many deaths in a row: 0, 1, 2, 4 … 30."""
    return 0.0 if deaths <= 1 else min(30.0, 2.0 ** (deaths - 2))
