"""LLM: the engine in the same process. Names and arguments follow vLLM's offline class, so that moving a script costs an import line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from headwater.core.drafting import DraftCounts
from headwater.core.errors import HeadwaterError, UserInputError, expect
from headwater.core.params import SamplingParams
from headwater.core.request import ReadSpec, TokenLogprobs
from headwater.engine.build import EngineSpec, load
from headwater.engine.choice import Delta
from headwater.engine.client import Grammar
from headwater.engine.expand import GenerateRequest
from headwater.engine.offline import Answer, Finished, Offline
from headwater.state import State, load_state

if TYPE_CHECKING:
    from headwater.decisions.types import DecisionRequest, DecisionResult

__all__ = ["LLM", "CompletionOutput", "Grammar", "Logprob", "RequestOutput", "SamplingParams", "State"]

Prompt = str | Sequence[int] | np.ndarray | State


@dataclass(frozen=True, slots=True)
class Logprob:
    """rank: place among all tokens, 1 = most likely; None for a drawn token outside the asked-for top."""

    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


@dataclass(slots=True)
class CompletionOutput:
    """One choice. x_seed: this seed in a request of its own, with the same prompt, gives the same tokens. finish_reason: stop, length."""

    index: int
    text: str
    token_ids: list[int]
    cumulative_logprob: float | None = None
    logprobs: list[dict[int, Logprob]] | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    x_seed: int = 0


@dataclass(slots=True)
class RequestOutput:
    """prompt_logprobs: per prompt token, None for the first (nothing precedes it). num_cached_tokens: prompt tokens whose state was found.

    drafts: what drafting did for all outputs (drafted and accepted by source, tokens per target pass), None where it is off.
    """

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    prompt_logprobs: list[dict[int, Logprob] | None] | None
    outputs: list[CompletionOutput] = field(default_factory=list)
    finished: bool = True
    num_cached_tokens: int = 0
    drafts: DraftCounts | None = None


class LLM:
    """A model ready to generate. Not thread-safe: one caller at a time.

    model: a known name (`headwater models`), a .gguf file, a folder with safetensors, `hf:ORG/REPO[:FILE]`, or `echo` (no weights; for tests).
    weights: `as-is`, `q8` or `q4` (quantise a float model at load). kv_memory: bytes for keys and values, None = what the machine allows.
    context: tokens, None = the model's own. threads: None = physical cores. seed: of requests that bring none (None = a fresh one each).
    progress: called while loading with (bytes done, bytes in all, tensor name).
    sched, evict, draft, attend: residents of the rooms, as on the command line. Further fields: `EngineSpec`.
    """

    def __init__(self, model: str | Path, *, seed: int | None = None, progress: Any = None, **fields: Any) -> None:
        try:
            spec = EngineSpec(model=str(model), **fields)
        except TypeError as e:
            raise UserInputError(f"LLM: {e}") from None
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0):
            raise UserInputError(f"seed: must be an integer of at least 0, got {seed!r}", "seed")
        engine, self._text = load(spec, progress)
        self._offline = Offline(engine, self._text)
        self._rng = None if seed is None else np.random.default_rng(seed)

    @property
    def tokenizer(self) -> Any:
        """encode, decode, token_bytes, turn_end_ids."""
        return self._text.tokenizer

    @property
    def engine(self) -> Any:
        """The engine below, for measurements: `engine.log`, `engine.stats()`."""
        return self._offline.engine

    # -- generate ------------------------------------------------------------------------------------------------------------------------

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        grammar: Grammar | None = None,
        progress: bool = False,
        on_delta: Callable[[int, Delta], None] | None = None,
    ) -> list[RequestOutput]:
        """Continue each prompt (text, ids, or a State to fork); one RequestOutput per prompt, in order.

        on_delta: called with (prompt index, Delta) as tokens come. progress: a bar on stderr.
        """
        expect("grammar", grammar, (Grammar, NoneType), "a Grammar")
        expect("on_delta", on_delta, (Callable, NoneType), "a function of a prompt's index and a Delta")
        several = _as_list(prompts)
        params = _per_prompt(sampling_params, len(several))
        wants = [self._want(p, s, grammar) for p, s in zip(several, params, strict=True)]
        with _bar(len(wants), progress) as advance:
            def tell(index: int, delta: Delta) -> None:
                if delta.finish_reason is not None and delta.index == 0:
                    advance()
                if on_delta is not None:
                    on_delta(index, delta)

            answers = self._offline.run(wants, tell)
        return [self._output(a, p, s) for a, p, s in zip(answers, several, params, strict=True)]

    def chat(
        self,
        messages: Sequence[dict[str, Any]] | Sequence[Sequence[dict[str, Any]]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        tools: Sequence[dict[str, Any]] | None = None,
        grammar: Grammar | None = None,
        progress: bool = False,
        on_delta: Callable[[int, Delta], None] | None = None,
        **template: Any,
    ) -> list[RequestOutput]:
        """One conversation (a list of messages) or several; rendered with the model's chat template, then `generate`."""
        if not messages:
            raise UserInputError("messages: is empty; at least one message is needed", "messages")
        if isinstance(messages, Mapping):
            raise UserInputError("messages: must be a list of messages (or of such lists), got one message", "messages")
        expect("messages", messages, Sequence, "a list of messages, or of such lists")
        expect("messages[0]", messages[0], (Mapping, list, tuple), "a message, or a list of messages")
        expect("tools", tools, (Sequence, NoneType), "a list of tools")
        several = [messages] if isinstance(messages[0], Mapping) else messages
        prompts = [self._text.render_chat(m, tools, **template) for m in several]  # type: ignore[arg-type]
        return self.generate(prompts, sampling_params, grammar=grammar, progress=progress, on_delta=on_delta)

    def embed(self, texts: str | Sequence[str], *, pooling: str | None = None, normalize: bool = True) -> np.ndarray:
        """float32[n, dim]: the final hidden rows of each text, pooled.

        pooling: `mean` over its tokens, its first (`cls`) or its `last` one; None = the model's own way.
        """
        pooling = pooling or self._text.pooling
        if pooling not in ("mean", "cls", "last"):
            raise UserInputError(f"pooling: must be mean, cls or last, got {pooling!r}", "pooling")
        reads = ReadSpec(hidden="last" if pooling == "last" else "all")
        expect("texts", texts, Iterable, "text or a list of texts")
        several = [texts] if isinstance(texts, str) else list(texts)
        if not several:
            raise UserInputError("texts: is empty; at least one text is needed", "texts")
        answers = self._offline.run([GenerateRequest(self._ids(t), reads=reads, read_only=True) for t in several])
        hidden = [a.choices[0].reads.hidden for a in answers]
        rows = np.stack([h[0] if pooling == "cls" else h.mean(axis=0, dtype=np.float64) for h in hidden if h is not None]).astype(np.float32)
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12) if normalize else rows

    def decide(
        self,
        state: Any,
        questions: Any,
        *,
        debias: Literal["none", "reverse", "cyclic"] = "none",
        labels: Literal["auto", "text"] = "auto",
        temperature: float = 1.0,
        label_mass: bool = False,
        calibration: str | None = None,
    ) -> DecisionResult:
        """Typed questions over a state (text or anything JSON can write): one probability per allowed answer, nothing is generated.

        questions: name -> `bool`, `Literal[...]`, an Enum class, a statement, a list of options, `Choice`, `Score` or `Noul`; or a class with
        annotated fields (`result.filled(Form)` makes one). Every answer has the same bits whatever else is asked. calibration: temperature file.
        """
        from headwater.decisions.annotations import questions_of
        from headwater.decisions.types import DecisionRequest, as_text
        from headwater.engine.decisions import decide_offline, load_temperatures

        request = DecisionRequest(
            as_text(state, "state"), questions_of(questions), temperature=temperature, debias=debias, labels=labels, label_mass=label_mass
        )
        return decide_offline(self._offline, [request], load_temperatures(calibration))[0]

    def decide_requests(self, requests: Sequence[tuple[int, DecisionRequest]], calibration: str | None) -> list[tuple[int, Any]]:
        """Several states at once: (key, DecisionResult) for each, or (key, the HeadwaterError) of one that cannot be answered."""
        from headwater.engine.decisions import decide_offline, load_temperatures

        temperatures = load_temperatures(calibration)
        try:
            results: list[Any] = list(decide_offline(self._offline, [r for _, r in requests], temperatures)) if requests else []
        except HeadwaterError as e:
            if len(requests) == 1:
                return [(requests[0][0], e)]
            return [pair for one in requests for pair in self.decide_requests([one], calibration)]    # find out which of them
        return [(key, result) for (key, _), result in zip(requests, results, strict=True)]

    @property
    def name(self) -> str:
        """What the model is called."""
        return self._text.name

    # -- states --------------------------------------------------------------------------------------------------------------------------

    def state(self, prompt: str | Sequence[int] | np.ndarray) -> State:
        """Compute the state of a prompt and hold it; fork it as often as you like. Close it (or leave its `with`) to free it."""
        ids = self._ids(prompt)
        return State(self._offline, ids, self._offline.hold(ids))

    def fork(self, state: State) -> State:
        """Another handle on the same position; the two go on independently and share everything up to here."""
        expect("state", state, State, "a State of this LLM")
        state.parent_in(self._offline)
        return state.fork()

    def load_state(self, path: str | Path) -> State:
        """A state that `State.save` wrote. Raises UserInputError naming what differs: another model, kernel signature or KV format."""
        return load_state(self._offline, path)

    def close(self) -> None:
        """Free the model's memory."""
        self._offline.close()

    def __enter__(self) -> LLM:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- inside --------------------------------------------------------------------------------------------------------------------------

    def _ids(self, prompt: str | Sequence[int] | np.ndarray) -> Sequence[int] | np.ndarray:
        return self.tokenizer.encode(prompt) if isinstance(prompt, str) else prompt

    def _want(self, prompt: Prompt, params: SamplingParams, grammar: Grammar | None) -> GenerateRequest:
        if params.seed is None and self._rng is not None:
            params = replace(params, seed=int(self._rng.integers(2**63)))
        ids = prompt.tokens if isinstance(prompt, State) else self._ids(prompt)
        if params.thinking_token_budget is not None:
            grammar = self._text.think(ids, params.thinking_token_budget, grammar)
        if isinstance(prompt, State):
            return GenerateRequest(ids, params, grammar=grammar, parent=prompt.parent_in(self._offline), parent_pos=len(ids))
        return GenerateRequest(ids, params, grammar=grammar)

    def _output(self, a: Answer, prompt: Prompt, params: SamplingParams) -> RequestOutput:
        scored: list[dict[int, Logprob] | None] | None = None
        if params.prompt_logprobs is not None:
            scored = [None, *(self._logprob(e) for e in a.choices[0].reads.prompt)]
        outputs = [self._completion(c) for c in a.choices]
        text = prompt if isinstance(prompt, str) else None
        return RequestOutput(a.request_id, text, a.prompt.tolist(), scored, outputs, True, a.usage.cached, a.usage.drafts)

    def _completion(self, c: Finished) -> CompletionOutput:
        logprobs = None if c.logprobs is None else [self._logprob(e) for e in c.logprobs]
        total = None if c.logprobs is None else float(sum(e.logprob for e in c.logprobs))
        return CompletionOutput(c.index, c.text, c.token_ids, total, logprobs, c.finish_reason, c.stop_reason, c.seed)

    def _logprob(self, e: TokenLogprobs) -> dict[int, Logprob]:
        ranked = [(int(t), float(v), i + 1) for i, (t, v) in enumerate(zip(e.top_ids, e.top_values, strict=True))]
        if e.token not in (t for t, _, _ in ranked):
            ranked.append((e.token, e.logprob, 0))
        return {t: Logprob(v, rank or None, self.tokenizer.decode([t], skip_special=False)) for t, v, rank in ranked}


def _as_list(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    """One prompt or several; a flat list of numbers is one prompt of ids."""
    if isinstance(prompts, str | State | np.ndarray):
        return [prompts]
    expect("prompts", prompts, Iterable, "text, token ids, a State, or a list of them")
    several = list(prompts)
    return [several] if several and isinstance(several[0], int | np.integer) else several  # type: ignore[list-item, return-value]


def _per_prompt(params: SamplingParams | Sequence[SamplingParams] | None, n: int) -> list[SamplingParams]:
    if params is None or isinstance(params, SamplingParams):
        return [params or SamplingParams()] * n
    if isinstance(params, Mapping) or not isinstance(params, Iterable):
        raise UserInputError(f"sampling_params: must be SamplingParams, one for all or one each, got {type(params).__name__}", "sampling_params")
    if len(params) != n:
        raise UserInputError(f"sampling_params: {len(params)} for {n} prompts; give one for all or one each", "sampling_params")
    several = list(params)
    if not all(isinstance(p, SamplingParams) for p in several):
        raise UserInputError("sampling_params: must be SamplingParams, one for all or one each", "sampling_params")
    return several


class _bar:
    """A progress bar over requests on stderr, or nothing."""

    def __init__(self, total: int, show: bool) -> None:
        self._total, self._show = total, show
        self._progress: Any = None

    def __enter__(self) -> Callable[[], None]:
        if not self._show:
            return lambda: None
        from rich.console import Console
        from rich.progress import Progress

        self._progress = Progress(console=Console(stderr=True))
        self._progress.start()
        task = self._progress.add_task("prompts", total=self._total)
        return lambda: self._progress.advance(task)

    def __exit__(self, *exc: object) -> None:
        if self._progress is not None:
            self._progress.stop()
