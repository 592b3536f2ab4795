"""StepPlan to StepResult: update row state, run the model, compute logits where somebody reads, sample, verify, serve reads."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headwater.core.errors import HeadwaterError
from headwater.core.plan import Ragged, StepPlan, StepResult, Want
from headwater.core.request import TokenLogprobs
from headwater.kernels.program import Replay
from headwater.kernels.sampling import sample
from headwater.worker.branches import gather, spread
from headwater.worker.forward import Forward
from headwater.worker.inputs import Inputs, drop_rows
from headwater.worker.masks import Masks
from headwater.worker.reads import find_reads, serve_reads, wanted_tokens
from headwater.worker.rejection import reject
from headwater.worker.sampler import FAILURES, Sampler
from headwater.worker.verify import accept

NO_ROWS = np.zeros(0, np.int64)
Export = Callable[[list[np.ndarray]], None]


@dataclass(frozen=True, slots=True)
class Draws:
    """The places of a step at which something is drawn. sampled: plan rows; start: int[sampled + 1], their ranges in the flat arrays;
    table_rows: table row of each draw; at: token index whose logits are used; lengths: known tokens there = absolute position of the drawn token."""

    sampled: np.ndarray
    start: np.ndarray
    table_rows: np.ndarray
    at: np.ndarray
    lengths: np.ndarray


def find_draws(plan: StepPlan) -> Draws:
    """n_guess + 1 places for each row that samples."""
    sampled = np.flatnonzero(plan.want & Want.SAMPLE)
    counts = plan.n_guess[sampled] + 1
    start = np.concatenate([[0], np.cumsum(counts)])
    rows = np.repeat(sampled, counts)
    back = np.repeat(start[1:], counts) - 1 - np.arange(len(rows))   # 0 = the row's last token
    lengths = (plan.n_done + plan.n_new)[rows] - back
    return Draws(sampled, start, plan.rows[rows], plan.tokens.start[1:][rows] - 1 - back, lengths.astype(np.int32))


def sorted_once(values: np.ndarray) -> np.ndarray:
    """Ascending, each value once (`np.unique` would import numpy.ma, which the first token of a process waits for)."""
    ordered = np.sort(values)
    return ordered[np.concatenate((np.ones(len(ordered[:1]), bool), ordered[1:] != ordered[:-1]))]


class Runner:
    """Runs plans on one model. `masks`: the grammar matchers. Methods belong to the thread that runs plans, except `masks.add`.

    forced: results name the tokens that grammars want next (for `--draft forced`).
    """

    def __init__(self, forward: Forward, forced: bool = False) -> None:
        self.forward = forward
        self.forced = forced
        caps = forward.caps
        self.inputs = Inputs(caps.spec, caps.context, caps.vocabulary)
        self.masks = Masks(caps.vocabulary)
        self._sampler = Sampler(caps.vocabulary)
        self._exports: dict[str, Export] = {}
        self._imports: dict[str, list[np.ndarray]] = {}

    def export_row(self, request_id: str, done: Export) -> None:
        """Call `done` with the row's stored state after the step that computes the last prompt token of `request_id`."""
        self._exports[request_id] = done

    def check_import(self, arrays: list[np.ndarray], tokens: int) -> str | None:
        """What is wrong with arrays that claim to be a row of `tokens` positions; None when nothing is."""
        want = self.forward.row_arrays(tokens)
        got = [(a.shape, a.dtype) for a in arrays]
        if got == want:
            return None
        return f"holds arrays {[(s, str(d)) for s, d in got]}, a state of {tokens:,} tokens has {[(s, str(d)) for s, d in want]}"

    def import_row(self, request_id: str, arrays: list[np.ndarray]) -> None:
        """Take the state of `request_id`'s prompt from `arrays` instead of computing it. The request must want neither samples nor reads."""
        self._imports[request_id] = arrays

    def forget(self, request_id: str) -> None:
        """A request is over (a row that only left may come back: preemption)."""
        self.masks.drop(request_id)
        self._exports.pop(request_id, None)
        self._imports.pop(request_id, None)

    def run(self, plan: StepPlan) -> StepResult:
        """A bad row fails alone (`StepResult.failed`); an exception means that the whole step is lost."""
        began = time.perf_counter()
        inputs = self.inputs
        inputs.update(plan)
        if len(plan.copies):
            self.forward.copy_blocks(plan.copies)
        result = self._run_rows(plan) if plan.branches is None else self._run_tree(plan)
        if self.forced:
            self._force(plan, result)
        if plan.state_copies is not None and len(plan.state_copies):
            self.forward.copy_states(plan.state_copies)
        if self._exports:
            self._export(plan)
        result.seconds = time.perf_counter() - began
        return result

    def _run_rows(self, plan: StepPlan) -> StepResult:
        """Compute, read, draw, verify; states take in what held."""
        result, guessed = self._compute(plan)
        if len(guessed):
            self._take_in(plan, guessed, np.arange(len(guessed)), result)
        return result

    def _run_tree(self, plan: StepPlan) -> StepResult:
        """Branches run as rows beside their owners; of each owner the path that holds longest stays."""
        fan = spread(plan, self.inputs, self.forward.caps.blocks)
        try:
            if len(fan.copies):
                self.forward.copy_blocks(fan.copies)
            result, guessed = self._compute(fan.plan)
        except BaseException:
            self.inputs.give_back(fan.plan.rows[len(plan.rows) :])
            raise
        best, copies = gather(fan, result, self.inputs)
        began = time.perf_counter()
        if len(copies):
            self.forward.copy_blocks(copies)
        result.rollback_seconds += time.perf_counter() - began
        if len(guessed):
            owners = np.flatnonzero(plan.n_guess)
            self._take_in(plan, owners, np.searchsorted(guessed, best[owners]), result)
        return result

    def _compute(self, plan: StepPlan) -> tuple[StepResult, np.ndarray]:
        """-> (what came of it, plan rows whose recurrent state is as it was before the step, their inputs kept by the model)."""
        inputs = self.inputs
        draws, found = find_draws(plan), find_reads(plan, inputs)
        where = sorted_once(np.concatenate([draws.at, *wanted_tokens(found, inputs)])).astype(np.int32)
        step = inputs.step(plan, where)
        nothing = Ragged(np.zeros(0, np.int32), np.zeros(len(plan.rows) + 1, np.int32))
        result = StepResult(plan.step, nothing, plan.n_new.astype(np.int32, copy=True))
        guessed = NO_ROWS if plan.state_out is None else np.flatnonzero(plan.n_guess)
        if len(guessed):
            assert plan.state_out is not None
            step.keep = guessed.astype(np.int32)
            step.state_out = plan.state_out.copy()
            step.state_out[guessed] = -1
        imported = self._import(plan) if self._imports else []
        if imported:
            step = drop_rows(step, np.array(imported))
        if not len(step.tokens):
            return result, NO_ROWS
        hidden = self.forward.hidden(step)
        if found:
            result.reads = serve_reads(found, inputs, plan, self.forward, hidden, where)
        if len(draws.sampled):
            if len(where) != len(draws.at):
                hidden = hidden[np.searchsorted(where, draws.at)]
            result.tokens = self._draw(plan, draws, hidden, result)
        return result, guessed

    def _take_in(self, plan: StepPlan, rows: np.ndarray, kept: np.ndarray, result: StepResult) -> None:
        """The recurrent states of plan rows `rows` go on over their accepted tokens: the same sequential update, the same bits. kept: int[rows],
        under which number the model kept the path that counts."""
        assert plan.state_in is not None and plan.state_out is not None
        began = time.perf_counter()
        self.forward.replay(Replay(kept.astype(np.int32), result.n_ok[rows], plan.state_in[rows], plan.state_out[rows]))
        result.rollback_seconds += time.perf_counter() - began

    def _draw(self, plan: StepPlan, draws: Draws, hidden: np.ndarray, result: StepResult) -> Ragged:
        """Sample every place, verify guesses, fill n_ok and logprobs; -> tokens per plan row. Drawn tokens join the rows' histories."""
        bits = self._mask_bits(plan, draws, result)
        parameters, logits = self._sampler.draws(draws.table_rows, draws.lengths, self.inputs, bits), self.forward.logits(hidden)
        drawn = sample(logits, parameters)
        accepted = np.zeros(len(draws.sampled), np.int32)
        if plan.n_guess.any():
            guesses = Ragged.of([plan.tokens.row(i)[plan.n_new[i] - plan.n_guess[i] :] for i in draws.sampled.tolist()])
            if plan.laws:
                laws = {j: plan.laws[i] for j, i in enumerate(draws.sampled.tolist()) if i in plan.laws}
                reject(logits, parameters, draws.start, guesses, laws, drawn)
            accepted = accept(Ragged(drawn.tokens, draws.start), guesses)
            result.n_ok[draws.sampled] -= plan.n_guess[draws.sampled] - accepted
        counts = np.diff(draws.start)
        rows = np.repeat(draws.sampled, counts)
        kept = np.arange(len(rows)) - np.repeat(draws.start[:-1], counts) <= np.repeat(accepted, counts)
        for d in np.flatnonzero(kept & (drawn.status != 0)).tolist():
            result.failed.setdefault(int(rows[d]), FAILURES[int(drawn.status[d])])
        if result.failed:
            kept &= ~np.isin(rows, list(result.failed))
        tokens = drawn.tokens[kept]
        self.inputs.history[draws.table_rows[kept], draws.lengths[kept]] = tokens
        wanted = self.inputs.columns["logprobs"][draws.table_rows]
        for d in np.flatnonzero(kept & (wanted >= 0)).tolist():
            k = wanted[d]
            entry = TokenLogprobs(int(drawn.tokens[d]), float(drawn.logprobs[d]), drawn.top_ids[d, :k], drawn.top_logprobs[d, :k])
            result.logprobs.setdefault(int(rows[d]), []).append(entry)
        start = np.zeros(len(plan.rows) + 1, np.int32)
        np.cumsum(np.bincount(rows[kept], minlength=len(plan.rows)), out=start[1:])
        return Ragged(tokens, start)

    def _mask_bits(self, plan: StepPlan, draws: Draws, result: StepResult) -> np.ndarray | None:
        """uint32[draws, words], all ones where no grammar applies; None when no row has one. A row whose grammar fails fails alone."""
        masked = np.flatnonzero(plan.want[draws.sampled] & Want.MASK)
        if not len(masked):
            return None
        bits = np.full((len(draws.at), self.masks.words), 0xFFFFFFFF, np.uint32)
        for j in masked.tolist():
            i, first = int(draws.sampled[j]), int(draws.start[j])
            init = self.inputs.inits[int(plan.rows[i])]
            sure = int(draws.lengths[first])
            try:
                drawn = self.inputs.history[init.row, init.prompt_len : sure]
                guesses = plan.tokens.row(i)[plan.n_new[i] - plan.n_guess[i] :]
                self.masks.fill(init.mask or "", drawn, guesses, bits[first : int(draws.start[j + 1])])
            except KeyError:
                result.failed[i] = f"grammar of this request: no matcher is known under the name {init.mask!r}"
            except (ValueError, HeadwaterError) as e:
                result.failed[i] = f"grammar of this request: {e}"
        return bits

    def _force(self, plan: StepPlan, result: StepResult) -> None:
        """What the grammars of rows that drew something want next; a matcher that fails says so when it is next asked for a mask."""
        for i in np.flatnonzero(plan.want & Want.MASK).tolist():
            init, drawn = self.inputs.inits[int(plan.rows[i])], len(result.tokens.row(i))
            if not drawn or i in result.failed:
                continue
            known = int(plan.n_done[i] + plan.n_new[i] - plan.n_guess[i]) + drawn
            with contextlib.suppress(KeyError, ValueError, HeadwaterError):
                ids = self.masks.forced(init.mask or "", self.inputs.history[init.row, init.prompt_len : known])
                if len(ids):
                    result.forced[i] = ids

    def _import(self, plan: StepPlan) -> list[int]:
        """Fill the blocks of rows whose state comes from a file; -> their plan rows."""
        rows = []
        for i, row in enumerate(plan.rows.tolist()):
            arrays = self._imports.get(self.inputs.inits[row].request_id)
            if arrays is not None:
                done = int(plan.n_done[i])
                self.forward.import_row(self._tables(row), done, done + int(plan.n_new[i]), arrays)
                rows.append(i)
        return rows

    def _export(self, plan: StepPlan) -> None:
        for i, row in enumerate(plan.rows.tolist()):
            init = self.inputs.inits[row]
            reached = int(plan.n_done[i] + plan.n_new[i])
            if init.request_id in self._exports and reached >= init.prompt_len:
                self._exports.pop(init.request_id)(self.forward.export_row(self._tables(row), init.prompt_len))

    def _tables(self, row: int) -> list[np.ndarray]:
        return [t[row, : int(n)] for t, n in zip(self.inputs.tables, self.inputs.filled[:, row], strict=True)]
