"""Cost models: what a step costs in seconds, from its features. One currency for batch size, admission, drafts and the simulator."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from headwater.core.plan import StepFeatures, StepPlan, Want

KNEE = 16                         # tokens up to which a step is bound by reading the weights, not by arithmetic
_ODD_STEPS = 8                    # so many far too slow steps in a row are an accident
LEAST_MARGIN, MOST_MARGIN = math.log(0.8), math.log(2.0)
_SAMPLE, _READ = int(Want.SAMPLE), int(Want.READ)                  # plain ints: numpy is slow with enum members
SPEED_STEPS = 32                  # first steps that tell how fast the machine is against the prior
NAMES = ("step", "token", "token_beyond_knee", "row", "read", "kv_position", "guess", "kv_held")


def features(plan: StepPlan) -> StepFeatures:
    """What the cost model prices a plan by."""
    n = plan.n_new.astype(np.int64)
    context = plan.n_done * n + n * (n + 1) // 2                    # positions read by the new tokens, themselves included
    sampled = (plan.want & _SAMPLE) != 0
    reads = int((plan.n_guess[sampled] + 1).sum()) + int(np.count_nonzero(plan.want & _READ))
    f = StepFeatures(plan.n_tokens, len(plan.rows), reads, int(context.sum()), int(plan.n_guess.sum()), int((plan.n_done + n).sum()))
    return f if plan.branches is None else with_branches(f, plan.n_done[plan.branches.row], np.diff(plan.branches.ids.start))


def with_branches(f: StepFeatures, done: np.ndarray, guesses: np.ndarray) -> StepFeatures:
    """Branches beside the chains of a step: each is a row that begins `done` tokens in and repeats the last sure token before its guesses."""
    n, done = guesses.astype(np.int64) + 1, done.astype(np.int64)
    total = int(n.sum())
    return StepFeatures(f.tokens + total, f.rows + len(n), f.reads + total, f.kv_positions + int((n * done + n * (n + 1) // 2).sum()),
                        f.guesses + int(guesses.sum()), f.kv_held + int((n + done).sum()))


def columns(f: StepFeatures) -> tuple[float, ...]:
    """The features as the terms of a piecewise linear model, in the order of NAMES."""
    return (1.0, f.tokens, max(f.tokens - KNEE, 0), f.rows, f.reads, f.kv_positions, f.guesses, f.kv_held)


def non_negative(gram: np.ndarray, moment: np.ndarray) -> np.ndarray:
    """Least squares with coefficients ≥ 0 from normal equations: float64[k, k], float64[k] -> float64[k]; drops the most negative term until none is.

    The second slope (beyond the knee) may be negative as long as the sum of both slopes is not; callers clip it.
    """
    free = np.flatnonzero(np.diag(gram) > 0)
    while len(free):
        scale = np.sqrt(np.diag(gram)[free])
        part = gram[np.ix_(free, free)] / np.outer(scale, scale) + 1e-9 * np.eye(len(free))
        x = np.linalg.solve(part, moment[free] / scale) / scale
        bounded = free != NAMES.index("token_beyond_knee")
        if (x[bounded] >= 0).all():
            out = np.zeros(len(moment))
            out[free] = x
            return out
        free = np.delete(free, np.flatnonzero(bounded)[np.argmin((x * scale)[bounded])])
    return np.zeros(len(moment))


@dataclass(slots=True)
class LinearCost:
    """Fixed coefficients (seconds per term, in the order of NAMES)."""

    coefficients: tuple[float, ...] = (2e-3, 4e-4, 0.0, 2e-5, 5e-5, 1e-8, 0.0, 1e-8)

    def step_seconds(self, f: StepFeatures) -> float:
        """Predicted seconds of a step."""
        a, b, c, d, e, g, h, k = self.coefficients
        knee = c * (f.tokens - KNEE) if f.tokens > KNEE else 0.0
        return a + b * f.tokens + knee + d * f.rows + e * f.reads + g * f.kv_positions + h * f.guesses + k * f.kv_held

    def bound_seconds(self, f: StepFeatures) -> float:
        """Fixed numbers are certain."""
        return self.step_seconds(f)

    def learn(self, f: StepFeatures, seconds: float) -> None:
        """Fixed numbers do not learn."""


@dataclass(slots=True)
class Misses:
    """By how much predictions of big steps miss lately, in logarithms of seconds / prediction: running mean and mean deviation with the gains that
    RFC 6298 uses for round trips, since a shared machine is slow for many steps in a row and then is not."""

    mean: float = 0.0
    deviation: float = 0.1

    def learn(self, predicted: float, seconds: float) -> None:
        miss = math.log(seconds / predicted)
        self.deviation += (abs(miss - self.mean) - self.deviation) / 4
        self.mean += (miss - self.mean) / 8

    def margin(self) -> float:
        """Factor on a prediction. Never below 0.8: luck is not a reason to plan long steps; at most 2: an accident is not one to plan short ones."""
        return math.exp(min(max(self.mean + 4 * self.deviation, LEAST_MARGIN), MOST_MARGIN))


@dataclass(slots=True)
class LearnedCost:
    """Piecewise linear costs learned online: least squares over relative errors, old steps fade.

    prior: coefficients believed before any step, weighted like `prior_steps` typical steps; as the first steps come, its speed (not its shape)
    follows theirs, or on a machine ten times slower its relative weight would be a hundredfold. memory: steps after which a step counts 1/e.
    """

    prior: LinearCost = field(default_factory=LinearCost)
    prior_steps: float = 4.0
    memory: float = 5000.0
    steps: int = field(default=0, init=False)
    _gram: np.ndarray = field(init=False, repr=False)
    _moment: np.ndarray = field(init=False, repr=False)
    _fit: LinearCost = field(init=False, repr=False)
    _prior_gram: np.ndarray = field(init=False, repr=False)
    _prior_moment: np.ndarray = field(init=False, repr=False)
    _log_speed: float = field(default=0.0, init=False, repr=False)   # mean of log(seconds / prior) over the first steps
    _refit_at: int = field(default=4, init=False, repr=False)
    _odd: int = field(default=0, init=False, repr=False)
    _misses: Misses = field(default_factory=Misses, init=False, repr=False)

    def __post_init__(self) -> None:
        self._gram = np.zeros((len(NAMES), len(NAMES)))
        self._moment = np.zeros(len(NAMES))
        self._fit = self.prior
        for f in (StepFeatures(1, 1, 1, 100, 0, 100), StepFeatures(8, 8, 8, 4000, 0, 4000), StepFeatures(64, 1, 1, 4000, 0, 94),
                  StepFeatures(512, 4, 2, 200_000, 0, 2000)):
            self._add(f, self.prior.step_seconds(f), self.prior_steps / 4)
        self._prior_gram, self._prior_moment = self._gram, self._moment
        self._gram, self._moment = np.zeros_like(self._gram), np.zeros_like(self._moment)

    def _add(self, f: StepFeatures, seconds: float, weight: float) -> None:
        # relative to the prediction: relative to what was seen, slow steps would weigh little and the mean come out too low
        scale = min(max(self._fit.step_seconds(f), seconds / 2), 2 * seconds)
        x = np.array(columns(f)) / scale
        self._gram += weight * np.outer(x, x)
        self._moment += weight * (seconds / scale) * x

    def step_seconds(self, f: StepFeatures) -> float:
        """Predicted seconds of a step."""
        return self._fit.step_seconds(f)

    def bound_seconds(self, f: StepFeatures) -> float:
        """The prediction, raised by what predictions of steps beyond the knee missed lately."""
        return self._fit.step_seconds(f) * self._misses.margin()

    def learn(self, f: StepFeatures, seconds: float) -> None:
        """A step with these features took `seconds`. Single steps of ten times the prediction (a paused machine) are left out once warm; a run of
        them is a slower machine and counts."""
        odd = self.steps > 100 and seconds > 10 * self.step_seconds(f)
        self._odd = self._odd + 1 if odd else 0
        if seconds <= 0 or 0 < self._odd <= _ODD_STEPS:
            return
        if f.tokens > KNEE:
            self._misses.learn(max(self.step_seconds(f), 1e-9), seconds)
        fade = 1.0 - 1.0 / self.memory
        for a in (self._gram, self._moment, self._prior_gram, self._prior_moment):
            a *= fade
        self._add(f, seconds, 1.0)
        self.steps += 1
        if self.steps <= SPEED_STEPS:
            self._log_speed += (math.log(seconds / self.prior.step_seconds(f)) - self._log_speed) / self.steps
        if self.steps >= self._refit_at:
            self._refit_at = self.steps + min(max(self.steps // 4, 4), 64)
            slower = math.exp(self._log_speed)
            gram, moment = self._gram + self._prior_gram / slower**2, self._moment + self._prior_moment / slower
            self._fit = LinearCost(settle(non_negative(gram, moment)))


def settle(x: np.ndarray) -> tuple[float, ...]:
    """Clip the slope beyond the knee so that more tokens never cost less."""
    token, beyond = NAMES.index("token"), NAMES.index("token_beyond_knee")
    x[beyond] = max(x[beyond], -x[token])
    return tuple(float(v) for v in x)
