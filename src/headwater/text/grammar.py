"""Structured output: a JSON schema, regex, choice or Lark grammar becomes a matcher that says which tokens may come next.

Built on llguidance (an extra, loaded when the first grammar is compiled). Everything fails closed: a grammar that cannot be compiled
is the request's fault (400), one that runs into a limit later ends the row with an error; no token is ever drawn unconstrained.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast, get_args
from weakref import WeakKeyDictionary

import numpy as np

from headwater.core.errors import HeadwaterError, UserInputError
from headwater.core.unicode import encodable
from headwater.text.vocab import UNUSED

if TYPE_CHECKING:
    from headwater.text.tokenizer import Tokenizer

MAX_SOURCE = 1 << 18                                                # characters of a schema or grammar
MAX_CHOICES = 4096
Kind = Literal["json_schema", "json_object", "regex", "choice", "lark"]
# A model that is lost in JSON likes to write blanks without end: a gap between two parts holds at most this
_BLANKS = r"[\x20\x0A\x0D\x09]{1,24}"
_JSON_OPTIONS = {"whitespace_pattern": _BLANKS, "lenient": False}
_LIMITS = {
    "initial_lexer_fuel": 1_000_000, "step_lexer_fuel": 200_000, "step_max_items": 50_000, "max_items_in_row": 2000,
    "max_lexer_states": 20_000, "max_grammar_size": 20_000, "verbose_errors": False,
}


class GrammarError(HeadwaterError):
    """A compiled grammar ran into a limit while matching: the row that carries it ends with this error."""


@dataclass(frozen=True, slots=True)
class GrammarSpec:
    """What the output must look like. source: JSON text of the schema or of the list of choices, the regex, the Lark grammar, or ""."""

    kind: Kind
    source: str = ""

    @classmethod
    def of(cls, kind: Kind | str, value: Any = None, field: str = "response_format") -> GrammarSpec:
        """From a request's value: dict for json_schema, list of str for choice, str for regex and lark.

        Raises UserInputError naming `field`.
        """
        if kind not in get_args(Kind):
            raise UserInputError(f"{field}: {str(kind)[:40]!r} is not one of {', '.join(get_args(Kind))}", field=field)
        kind = cast(Kind, kind)
        if kind == "json_object":
            return cls(kind)
        if kind == "choice":
            ok = isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(c, str) and c for c in value)
            if not ok or not 0 < len(value) <= MAX_CHOICES:
                raise UserInputError(f"{field}: a list of 1 to {MAX_CHOICES} texts would be right", field=field)
            source = json.dumps(list(value))
            encodable("".join(value), field)
        elif kind == "json_schema":
            if not isinstance(value, dict | bool):
                raise UserInputError(f"{field}: a JSON schema (an object) would be right", field=field)
            try:
                source = json.dumps(value, allow_nan=False)
                encodable(json.dumps(value, ensure_ascii=False), field)
            except (ValueError, TypeError, RecursionError):
                raise UserInputError(f"{field}: the schema is no plain JSON", field=field) from None
        else:
            if not isinstance(value, str) or not value:
                raise UserInputError(f"{field}: a {kind} as text would be right", field=field)
            source = value
            encodable(source, field)
        if len(source) > MAX_SOURCE:
            raise UserInputError(f"{field}: {len(source):,} characters; at most {MAX_SOURCE:,} are allowed", field=field)
        return cls(kind, source)


class Matcher:
    """One sequence's place in a grammar. Not thread-safe. ends: the tokens that may end the output once the grammar is satisfied."""

    def __init__(self, inner: Any, ends: frozenset[int], words: int, ended: bool = False) -> None:
        self._inner, self._ends, self._words, self._ended = inner, ends, words, ended

    def accept(self, ids: Sequence[int] | np.ndarray) -> int:
        """Advance over `ids` as long as they are legal; returns how many were. After an end token nothing is."""
        if self._ended:
            return 0
        # end tokens are ours: the library counts them in some states and not in others, which would confuse rollback
        text = [int(i) for i in ids]
        cut = next((n for n, i in enumerate(text) if i in self._ends), len(text))
        n = self._inner.try_consume_tokens(text[:cut]) if cut else 0
        self._check()
        if n == cut < len(text) and self._inner.is_accepting():
            self._ended = True
            n += 1
        return n

    def rollback(self, n: int) -> None:
        """Take back the last `n` accepted tokens."""
        if n and self._ended:
            self._ended = False
            n -= 1
        if n and not self._inner.rollback(n):
            raise GrammarError(f"the grammar cannot go back {n} tokens ({self._reason()})")

    def fill(self, bits: np.ndarray, row: int = 0) -> None:
        """Write the mask of legal next tokens into bits[row]: uint32[rows, words], C-contiguous, bit i of word w is token 32 w + i.

        Legal ends of the output are the model's end tokens; once the grammar is complete they alone are legal.
        """
        target = bits[row]
        if bits.dtype != np.uint32 or not target.flags.c_contiguous or len(target) < self._words:
            raise ValueError(f"the mask must be contiguous uint32 of at least {self._words} words")
        self._inner.unsafe_compute_mask_ptr(target.ctypes.data, 4 * self._words)
        target[self._words :] = 0                                   # padding of the model's output is never legal
        self._check()

    def forced(self) -> list[int]:
        """The tokens that must come next, [] when there is a choice."""
        return self._inner.compute_ff_tokens()

    def done(self) -> bool:
        """Whether the output is complete and only an end token may follow."""
        return self._ended or self._inner.is_stopped()

    def may_end(self) -> bool:
        """Whether the output so far satisfies the grammar."""
        return self._inner.is_accepting()

    def fork(self) -> Matcher:
        """An independent matcher at the same place."""
        return Matcher(self._inner.deep_copy(), self._ends, self._words, self._ended)

    def _reason(self) -> str:
        return " ".join(self._inner.get_error().split())[:200] or "unknown reason"

    def _check(self) -> None:
        if self._inner.is_error():
            raise GrammarError(f"the grammar failed: {self._reason()}")


class MatcherAfter:
    """A matcher that begins behind the token `after`, the end of thinking. Until then everything is legal but to end the output."""

    def __init__(self, inner: Matcher, after: int, free: np.ndarray) -> None:
        """free: uint32[words], the mask while the grammar has not begun."""
        self._inner, self._after, self._free = inner, after, free
        self._before = self._inside = 0                             # tokens accepted in front (with `after`) and in the grammar
        self._begun = False

    def accept(self, ids: Sequence[int] | np.ndarray) -> int:
        """As Matcher.accept."""
        count = 0
        for i in map(int, ids):
            if self._begun:
                n = self._inner.accept(ids[count:])
                self._inside += n
                return count + n
            if not 0 <= i < 32 * len(self._free) or not int(self._free[i >> 5]) >> (i & 31) & 1:
                return count
            count += 1
            self._before += 1
            self._begun = i == self._after
        return count

    def rollback(self, n: int) -> None:
        """As Matcher.rollback, also back over the beginning of the grammar."""
        inside = min(n, self._inside)
        self._inner.rollback(inside)
        self._inside -= inside
        if n > inside:
            self._before -= n - inside
            self._begun = False

    def fill(self, bits: np.ndarray, row: int = 0) -> None:
        """As Matcher.fill."""
        if self._begun:
            self._inner.fill(bits, row)
            return
        bits[row, : len(self._free)] = self._free
        bits[row, len(self._free) :] = 0

    def forced(self) -> list[int]:
        """As Matcher.forced."""
        return self._inner.forced() if self._begun else []

    def done(self) -> bool:
        """As Matcher.done."""
        return self._begun and self._inner.done()

    def may_end(self) -> bool:
        """As Matcher.may_end."""
        return self._begun and self._inner.may_end()

    def fork(self) -> MatcherAfter:
        """As Matcher.fork."""
        twin = MatcherAfter(self._inner.fork(), self._after, self._free)
        twin._before, twin._inside, twin._begun = self._before, self._inside, self._begun
        return twin


class GrammarCompiler:
    """Compiles specs for one tokenizer and keeps the last ones. Thread-safe; call it off the event loop, a large schema takes a while.

    width: number of columns of the model's output when it is wider than the vocabulary.
    """

    def __init__(self, tokenizer: Tokenizer, width: int | None = None, keep: int = 64) -> None:
        self._tokenizer, self._keep = tokenizer, keep
        self.width = max(width or 0, tokenizer.vocab_size)
        self._cache: OrderedDict[GrammarSpec, Any] = OrderedDict()
        self._lock = threading.Lock()
        self._library: Any = None

    @property
    def words(self) -> int:
        """Length of a mask in uint32 words."""
        return (self.width + 31) // 32

    def compile(self, spec: GrammarSpec, field: str = "response_format") -> Matcher:
        """A new matcher at the beginning of the grammar. Raises UserInputError naming `field` when there is none."""
        with self._lock:
            found = self._cache.get(spec)
            if found is not None:
                self._cache.move_to_end(spec)
            library, tokens = self._load(field)
        if found is None:
            found = self._compile(library, tokens, spec)            # outside the lock: one slow schema does not stall the others
            with self._lock:
                self._cache[spec] = found
                while len(self._cache) > self._keep:
                    self._cache.popitem(last=False)
        if isinstance(found, str):
            raise UserInputError(f"{field}: {found}", field=field)
        return Matcher(found.deep_copy(), frozenset(tokens.eos_tokens), self.words)

    def free_mask(self) -> np.ndarray:
        """uint32[words]: every token of the vocabulary but padding and those that end the output."""
        allowed = np.zeros(32 * self.words, np.uint8)
        allowed[: self._tokenizer.vocab_size] = self._tokenizer.vocab.types != UNUSED
        allowed[sorted(self._tokenizer.turn_end_ids)] = 0
        return np.packbits(allowed, bitorder="little").view(np.uint32)

    def _load(self, field: str) -> Any:
        if self._library is None:
            try:
                import llguidance
            except ImportError:
                raise UserInputError(f"{field}: structured output needs the extra: pip install 'headwater[grammar]'", field=field) from None
            wrapper = _Tokens(self._tokenizer, self.width)
            main = wrapper.eos_token_id                             # goes first: the library takes the first as the main end token
            ends = [main, *sorted(self._tokenizer.turn_end_ids - {main})]
            self._library = llguidance, llguidance.LLTokenizer(llguidance.TokenizerWrapper(wrapper), eos_token=ends)
        return self._library

    @staticmethod
    def _compile(library: Any, tokens: Any, spec: GrammarSpec) -> Any:
        """A pristine matcher, or the text of what is wrong with the grammar."""
        matcher = library.LLMatcher
        try:
            if spec.kind in ("json_schema", "json_object"):
                schema = spec.source or '{"type": "object"}'
                grammar = matcher.grammar_from_json_schema(schema, overrides=_JSON_OPTIONS)
            elif spec.kind == "regex":
                grammar = matcher.grammar_from_regex(spec.source)
            elif spec.kind == "choice":
                options = [json.dumps(c, ensure_ascii=False) for c in json.loads(spec.source)]
                grammar = matcher.grammar_from_lark("start: " + " | ".join(options))
            else:
                grammar = matcher.grammar_from_lark(spec.source)
            built = matcher(tokens, grammar, log_level=0, limits=library.LLParserLimits(**_LIMITS))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as e:                                  # panics of the library are no Exception
            return f"the {spec.kind} cannot be compiled ({' '.join(str(e).split())[:200]})"
        if built.is_error():
            return f"the {spec.kind} cannot be compiled ({' '.join(built.get_error().split())[:200]})"
        return built


_COMPILERS: WeakKeyDictionary[Tokenizer, GrammarCompiler] = WeakKeyDictionary()
_COMPILERS_LOCK = threading.Lock()


def compile_grammar(
    tokenizer: Tokenizer, kind: Kind | str, source: Any, *, after: int | None = None, field: str = "response_format"
) -> Matcher | MatcherAfter:
    """A matcher for one answer of the model that `tokenizer` belongs to; compiled grammars are kept. See GrammarSpec.of for the sources.

    after: the grammar begins behind this token. Raises UserInputError naming `field`.
    """
    with _COMPILERS_LOCK:
        compiler = _COMPILERS.get(tokenizer)
        if compiler is None:
            compiler = _COMPILERS[tokenizer] = GrammarCompiler(tokenizer)
    matcher = compiler.compile(GrammarSpec.of(kind, source, field), field)
    return matcher if after is None else MatcherAfter(matcher, after, compiler.free_mask())


class _Tokens:
    """A tokenizer as llguidance wants to see it."""

    def __init__(self, tokenizer: Tokenizer, width: int) -> None:
        self._tokenizer = tokenizer
        v = tokenizer.vocab
        self.bos_token_id = v.bos_id
        self.eos_token_id = v.eos_id if v.eos_id is not None else min(v.turn_end_ids, default=0)
        self.special_token_ids = sorted(v.special_ids)
        padding = v.types == UNUSED                                 # their texts are names of padding, no token of text
        self.tokens = [b"" if pad else piece for piece, pad in zip(tokenizer.bytes_table, padding.tolist(), strict=True)]
        self.tokens += [b""] * (width - len(self.tokens))

    def __call__(self, text: str) -> list[int]:
        if not isinstance(text, str):
            raise TypeError("text is wanted")
        return self._tokenizer.encode(text, add_special=False, parse_special=False)
