"""EngineSpec to objects: the only place where rooms are resolved and models are loaded."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.core import registry
from headwater.core.errors import UserInputError, expect
from headwater.core.events import Arrive
from headwater.core.kvspec import BLOCK_TOKENS, CACHE_FORMATS, CacheGroup, KVSpec
from headwater.core.params import SamplingParams
from headwater.core.request import Request
from headwater.engine.memory import KVMemory, available_bytes, default_kv_budget, parse_bytes, share_kv
from headwater.engine.text import TextModel
from headwater.policies.draft.api import Drafter, Forks, NeedsModel, TakesForced, members

if TYPE_CHECKING:
    from headwater.engine.engine import Engine
    from headwater.engine.front import Front
    from headwater.engine.health import Deadlines
    from headwater.kernels.pattern import PatternSpec
    from headwater.kernels.select import SelectSpec
    from headwater.model.config import ModelConfig
    from headwater.model.load.loader import Model
    from headwater.model.plan import MemoryPlan
    from headwater.policies.draft.api import Drafter
    from headwater.text.tokenizer import Tokenizer
    from headwater.worker.forward import Forward

Progress = Callable[[int, int, str], None]
ECHO = "echo"
DRAFT_KV = "256M"                                                   # keys and values of a draft model
CALIBRATION_TOKENS = (16, 8, 48, 192)
TOKENIZER_BYTES = 600                                               # Python and merge tables, per token of the vocabulary (measured)
SCRATCH_READS = 64                                                  # read rows of one step that the memory plan counts with


@dataclass(frozen=True)
class EngineSpec:
    """Everything that an engine is made from; a child process gets exactly this.

    model: catalog name, .gguf file, folder, `hf:ORG/REPO[:FILE]`, or `echo`. name: what clients call it (None = from the model).
    weights: `as-is`, `q8`, `q4`. kv_memory: bytes or `4G`. kv_format: of `CACHE_FORMATS`. context, threads: None = the model's, the machine's.
    rope_scaling: `yarn:factor=4` and the like, for a context beyond the model's own.
    chat_template: a file that replaces the model's own. sched, evict, draft, attend: residents. step_tokens: most tokens in one step.
    backend: `auto`, `native` or `reference` (numpy; slow).
    """

    model: str = "smollm2-135m-instruct"
    name: str | None = None
    weights: str = "as-is"
    kv_memory: int | str | None = None
    kv_format: str = "f16"
    context: int | None = None
    rope_scaling: str = ""
    threads: int | None = None
    chat_template: str | None = None
    sched: str = "fcfs"
    evict: str = "slru"
    draft: str = "none"
    attend: str = "dense"
    step_tokens: int = 2048
    backend: str = "auto"
    accept_licence: bool = False

    def __post_init__(self) -> None:
        for field, least in (("context", 16), ("threads", 1), ("step_tokens", 1)):
            value = getattr(self, field)
            if value is not None and (not isinstance(value, int) or value < least):
                raise UserInputError(f"--{field.replace('_', '-')}: must be an integer of at least {least}, got {value!r}", field)
        for field in ("sched", "evict", "draft", "attend", "rope_scaling"):
            value = getattr(self, field)
            if not isinstance(value, str):
                raise UserInputError(f"--{field.replace('_', '-')}: must be text, got {value!r}", field)
        expect("--chat-template", self.chat_template, (str, os.PathLike, NoneType), "the name of a file")
        for field, known in (("backend", ("auto", "native", "reference")), ("kv_format", CACHE_FORMATS)):
            value = getattr(self, field)
            if value not in known:
                raise UserInputError(f"--{field.replace('_', '-')} {value}: one of {', '.join(known)}", field)


def load(spec: EngineSpec, progress: Progress | None = None, text: TextModel | None = None) -> tuple[Engine, TextModel]:
    """Engine and text half of one model in this process. progress: (bytes done, bytes in all, tensor name). text: where it is loaded already."""
    if spec.model == ECHO:
        text = text or _echo_text(spec)
        return _echo_engine(spec, text), text
    from headwater.model.load.loader import load_source, open_source

    _set_threads(spec)
    with open_source(_paths(spec), spec.rope_scaling) as source, ThreadPoolExecutor(1, "load") as loader:
        loading = loader.submit(load_source, source, spec.weights, progress, spec.kv_format)
        # while weights are read and re-encoded natively, Python has the tokenizer to build and the engine to import
        text = text or _text(spec, _tokenizer(source.tokenizer), source.generation, _name(spec, source.config.name), source.config)
        _import_engine()
        model = loading.result()
    return _model_engine(spec, model, text), text


def _import_engine() -> None:
    """What `_model_engine` will need."""
    import headwater.engine.engine
    import headwater.sched.scheduler
    import headwater.worker.exec.inline
    import headwater.worker.model_forward
    import headwater.worker.runner  # noqa: F401


def load_engine(spec: EngineSpec, progress: Progress | None = None, text: TextModel | None = None) -> Engine:
    """For servers: loaded, and its cost model fed with a few real steps, so that the first long prompt is cut into chunks that fit the budget."""
    engine = load(spec, progress, text)[0]
    calibrate(engine)
    return engine


def calibrate(engine: Engine) -> None:
    """Run a few steps of made-up tokens under a salt that nobody shares: chunks of three sizes, then single tokens.

    The first request touches memory for the first time and is not learned from.
    """
    caps = engine.executor.caps()
    if engine.cost is None:
        return
    rng = np.random.default_rng(0)
    cost, engine.cost = engine.cost, None
    for i, n in enumerate(CALIBRATION_TOKENS):
        prompt = rng.integers(0, caps.vocabulary, min(n, caps.context - 4)).astype(np.int32)
        params = SamplingParams(temperature=0.0, max_tokens=4, ignore_eos=True)
        engine.post(Arrive(Request(f"calibration-{i}", prompt, params, 3, cache_salt="calibration")))
        while engine.run_once() is not None:
            pass
        engine.cost = cost


def load_text(spec: EngineSpec) -> TextModel:
    """The text half alone: metadata is read, no weight is. For front processes."""
    if spec.model == ECHO:
        return _echo_text(spec)
    from headwater.model.load.loader import open_source

    with open_source(_paths(spec), spec.rope_scaling) as source:
        return _text(spec, _tokenizer(source.tokenizer), source.generation, _name(spec, source.config.name), source.config)


def build_front(
    spec: EngineSpec, progress: Progress | None = None, *, process: bool = False, deadlines: Deadlines | None = None, log_format: str = "text",
) -> Front:
    """A front for a server; `await front.start()` loads the model. process: the engine runs in a child that may die alone, and does when it
    misses one of `deadlines`. log_format: of the child's log."""
    from headwater.engine.front import Front
    from headwater.engine.process import ProcessClient
    from headwater.engine.thread import ThreadClient

    if not process:
        text = load_text(spec)
        return Front(ThreadClient(lambda: load_engine(spec, progress, text)), text)
    client = ProcessClient(spec, deadlines, progress, log_format)
    client.prepare()
    try:
        return Front(client, load_text(spec))
    except BaseException:
        client.close()
        raise


def plan_kv(spec: EngineSpec, kv: KVSpec, context: int, taken: int) -> KVMemory:
    """Blocks and slots. taken: bytes that weights and scratch will need besides."""
    if spec.kv_memory is not None:
        return share_kv(kv, parse_bytes(spec.kv_memory, "kv_memory"), context)
    return share_kv(kv, default_kv_budget(kv, context, max(0, available_bytes() - taken)), context)


@dataclass(frozen=True)
class Survey:
    """What an engine of a spec will take, known before a weight is read; bytes, once all of it is written."""

    name: str
    family: str
    context: int
    weights: int
    vectors: int
    kv: KVMemory
    kv_per_token: int
    scratch: int
    tokenizer: int
    free: int
    spec: KVSpec

    @property
    def total(self) -> int:
        return self.weights + self.vectors + self.kv.bytes + self.scratch + self.tokenizer


def survey(spec: EngineSpec) -> Survey:
    """The memory plan of a model from its file's tables."""
    from headwater.model.load.loader import open_source, plan_model

    paths = _paths(spec)
    plan = plan_model(paths, spec.weights, spec.kv_format, spec.rope_scaling)
    with open_source(paths, spec.rope_scaling) as source:
        config = source.config
    context = context_of(spec, config.context)
    select = build_attend(spec.attend, plan.kv, config.heads)
    spec = uncut(spec, select, context)
    scratch = _scratch(spec, plan, context)
    free = available_bytes()
    kvspec = with_index(plan.kv, select)
    kv = plan_kv(spec, kvspec, context, plan.weights + plan.vectors + scratch)
    tokenizer = TOKENIZER_BYTES * config.vocab
    return Survey(_name(spec, config.name), config.family, context, plan.weights, plan.vectors, kv, kvspec.bytes_per_token, scratch, tokenizer, free,
                  kvspec)


# -- models ------------------------------------------------------------------------------------------------------------------------------


def _paths(spec: EngineSpec) -> list[Path]:
    from headwater.model.catalog import resolve

    return resolve(spec.model, accept_licence=spec.accept_licence, progress=sys.stderr.isatty())


def _name(spec: EngineSpec, own: str) -> str:
    """Catalog names and hub names stay; a file is called by its stem."""
    path = Path(spec.model)
    return spec.name or (path.stem if path.suffix == ".gguf" else path.name if path.is_dir() else spec.model.removeprefix("hf:")) or own


def _tokenizer(source: Any) -> Tokenizer:
    from headwater.text.tokenizer import Tokenizer

    return Tokenizer.from_gguf(source.metadata) if source.kind == "gguf" else Tokenizer.from_json(source.folder)


def _text(
    spec: EngineSpec, tokenizer: Tokenizer, generation: Mapping[str, Any], name: str, config: ModelConfig | None = None
) -> TextModel:
    """Every end-of-turn id of the tokenizer and of the generation config stops. A given template is compiled now, the model's own on first use."""
    eos = generation.get("eos_token_id", ())
    named = frozenset(int(t) for t in ([eos] if isinstance(eos, int) else eos or ()))
    text = TextModel(name, tokenizer, tokenizer.turn_end_ids | named, Path(spec.chat_template) if spec.chat_template else None)
    if spec.chat_template:
        _ = text.template
    if config is not None:
        text.generates = config.causal
        text.pooling = "mean" if config.pooling == "none" else config.pooling
    return text


def context_of(spec: EngineSpec, model_context: int) -> int:
    """The context to serve: the model's own, or less where asked. Raises UserInputError with both numbers where more is asked."""
    if spec.context is not None and spec.context > model_context:
        raise UserInputError(f"--context: {spec.context:,} is more than the {model_context:,} tokens that the model was made for", "context")
    return spec.context or model_context


def _set_threads(spec: EngineSpec) -> None:
    from headwater.kernels import native

    if spec.backend == "native" and not native.available():
        raise UserInputError("--backend native: the native module is not installed; --backend reference runs without it (slowly)", "backend")
    if spec.threads is not None and native.available():
        native.library().set_threads(spec.threads)


def _scratch(spec: EngineSpec, plan: MemoryPlan, context: int) -> int:
    return min(spec.step_tokens, context) * plan.scratch_per_token + SCRATCH_READS * plan.scratch_per_read


def _model_engine(spec: EngineSpec, model: Model, text: TextModel) -> Engine:
    from headwater.worker.model_forward import ModelForward

    context = context_of(spec, model.config.context)
    select = build_attend(spec.attend, model.kvspec, model.config.heads)
    spec = uncut(spec, select, context)
    kvspec = with_index(model.kvspec, select)
    memory = plan_kv(spec, kvspec, context, _scratch(spec, model.plan, context))
    forward = ModelForward(
        model.program, kvspec, memory.blocks, memory.slots, context=context, identity=model.identity,
        step_tokens=max(spec.step_tokens, 0 if text.generates else context), vocabulary=model.config.vocab, plain=spec.backend == "reference",
        select=select, attend=spec.attend,
    )
    return _engine(spec, forward, text)


def build_attend(spec: str, kv: KVSpec, heads: int) -> SelectSpec | PatternSpec | None:
    """What a resident of the room `attend` asks of the kernels; None = everything is read. heads: query heads of the model.

    Raises UserInputError for models that it cannot serve.
    """
    from headwater.kernels.pattern import PatternSpec

    select: SelectSpec | PatternSpec | None = registry.build("attend", spec).selection()
    if select is not None and any(g.format == "i16" for g in kv.groups):
        raise UserInputError(f"--attend {spec}: reads parts of the cache, which --kv i16 does not offer; --kv f16 or q8 would do", "attend")
    everywhere = select is not None and not isinstance(select, PatternSpec) and select.everywhere
    if select is not None and not everywhere and not kv.can_cut:
        raise UserInputError(f"--attend {spec}: this model has sliding windows or recurrent states; only dense is served for it", "attend")
    if isinstance(select, PatternSpec):
        return replace(select, group=heads // kv.groups[0].kv_heads)
    if select is not None and not everywhere and any(g.head_dim % BLOCK_TOKENS for g in kv.groups):
        raise UserInputError(f"--attend {spec}: the model's heads are {kv.groups[0].head_dim} wide; a multiple of {BLOCK_TOKENS} is needed", "attend")
    return select


def uncut(spec: EngineSpec, select: SelectSpec | PatternSpec | None, context: int) -> EngineSpec:
    """The spec, with prompts computed whole where a pattern is decided from whole prompts: cut otherwise, they would give other answers."""
    from headwater.kernels.pattern import PatternSpec

    if not isinstance(select, PatternSpec) or not select.whole:
        return spec
    most = max(spec.step_tokens, context + 1024)                    # beside a prompt that fills the context others go on decoding
    return replace(spec, step_tokens=most, sched=f"whole:tokens={most}")


def with_index(kv: KVSpec, select: SelectSpec | PatternSpec | None) -> KVSpec:
    """The spec with the bytes of the selection's index, or of the pattern's samples, counted."""

    def counted(g: CacheGroup) -> CacheGroup:
        if select is None or g.kind != "full":
            return g
        size = select.index_bytes(g.head_dim, g.head_bytes_per_block) * g.kv_heads * max(g.layers - select.dense_layers, 0)
        return replace(g, index_bytes=-(-size // select.segment))

    return replace(kv, groups=tuple(counted(g) for g in kv.groups))


def build_drafter(spec: str, text: TextModel | None = None) -> Drafter | None:
    """`none`, or residents of the room `draft` joined by `+` (`suffix+ngram:longest=5`). text: whose markers of thinking count.

    Raises UserInputError with the known ones.
    """
    from headwater.policies.draft.best import BestDraft

    if spec == "none":
        return None
    drafters = [registry.build("draft", part) for part in spec.split("+")]
    if sum(isinstance(d, Forks) for d in drafters) > 1:
        raise UserInputError(f"--draft {spec}: at most one drafter that forks rows", field="draft")
    for d in drafters:
        if isinstance(d, Forks) and text is not None:
            d.mark(*text.markers())
    return drafters[0] if len(drafters) == 1 else BestDraft(drafters)


def _attach_models(drafter: Drafter | None, spec: EngineSpec, text: TextModel) -> None:
    """Load the small models that drafters ask for. Raises UserInputError where a vocabulary differs."""
    for d in members(drafter):
        if isinstance(d, NeedsModel):
            from headwater.engine.draftmodel import DraftModel, check_vocabulary

            if not d.file:
                raise UserInputError("--draft model: names no model; --draft model:file=NAME would be right", "draft")
            small = EngineSpec(d.file, kv_memory=DRAFT_KV, step_tokens=spec.step_tokens, backend=spec.backend, accept_licence=spec.accept_licence)
            engine, its_text = load(small)
            check_vocabulary(its_text, text)
            d.attach(DraftModel(engine))


def takes_forced(drafter: Drafter | None) -> bool:
    """Whether the executor has to say what grammars force."""
    return any(isinstance(d, TakesForced) for d in members(drafter))


def _engine(spec: EngineSpec, forward: Forward, text: TextModel) -> Engine:
    from headwater.core.cost import LearnedCost
    from headwater.engine.engine import Engine
    from headwater.sched.guess import Guesser
    from headwater.sched.scheduler import Scheduler
    from headwater.worker.exec.inline import InlineExecutor
    from headwater.worker.runner import Runner

    drafter = build_drafter(spec.draft, text)
    _attach_models(drafter, spec, text)
    executor = InlineExecutor(Runner(forward, forced=takes_forced(drafter)))
    whole = not text.generates or executor.caps().private           # whole prompts cannot be cut to fit seconds
    cost = None if whole else LearnedCost()
    scheduler = Scheduler(
        executor.caps(), registry.build("sched", spec.sched if text.generates else "whole"), registry.build("evict", spec.evict), cost,
        guess=None if drafter is None else Guesser(drafter, cost),
    )
    return Engine(scheduler, executor, cost, compile_grammar=lambda grammar: text.compile_grammar(grammar, forward.caps.vocabulary))


# -- echo --------------------------------------------------------------------------------------------------------------------------------


def _echo_engine(spec: EngineSpec, text: TextModel) -> Engine:
    from headwater.worker.exec.echo import ECHO_CONTEXT, ECHO_EOS_RATE, EchoForward, echo_spec

    context = spec.context or ECHO_CONTEXT
    memory = share_kv(echo_spec(), parse_bytes(spec.kv_memory or 2**22, "kv_memory"), context)
    return _engine(spec, EchoForward(memory.blocks[0], context, eos_rate=ECHO_EOS_RATE), text)


def _echo_text(spec: EngineSpec) -> TextModel:
    from headwater.text.echo import echo_tokenizer
    from headwater.worker.exec.echo import ECHO_VOCABULARY

    return _text(spec, echo_tokenizer(ECHO_VOCABULARY), {}, spec.name or ECHO)
