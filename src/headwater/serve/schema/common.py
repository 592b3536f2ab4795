"""What generation requests of all dialects share: sampling fields, structured output, unknown fields that are reported and never swallowed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from headwater.core.errors import UserInputError
from headwater.core.params import SamplingParams
from headwater.engine.client import Grammar

# fields that would change the answer and that we cannot honour: refused by name, not ignored
REFUSED = {
    "best_of": "use n and choose yourself",
    "use_beam_search": "beam search is not offered",
    "length_penalty": "beam search is not offered",
    "prompt_embeds": "prompts are token ids or text",
    "bad_words": "use logit_bias",
    "typical_p": "not offered",
    "mirostat": "not offered",
    "tfs_z": "not offered",
    "dry_multiplier": "not offered",
    "xtc_probability": "not offered",
    "functions": "use tools",
    "function_call": "use tool_choice",
    "audio": "text only",
    "prediction": "not offered",
    "chat_template": "templates are chosen where the server is started, by --chat-template",
    "truncate_prompt_tokens": "prompts are never cut",
    "guided_whitespace_pattern": "not offered",
    "logits_processors": "not offered",
    "web_search_options": "not offered",
    "background": "answers are not computed behind a closed connection",
    "echo": "offered by /v1/completions",
}
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "best_of": (1,), "use_beam_search": (False,), "length_penalty": (1, 1.0), "mirostat": (0,), "typical_p": (1, 1.0), "tfs_z": (1, 1.0),
    "dry_multiplier": (0, 0.0), "xtc_probability": (0, 0.0), "bad_words": ([],), "background": (False,), "echo": (False,), "logits_processors": ([],),
}


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


Int = Annotated[int, BeforeValidator(_whole)]                       # JSON does not tell 5 from 5.0, and some languages write the latter
# what a client may call a request: goes into logs and headers
RequestId = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9._:/-]+$")]
Salt = Annotated[str, Field(max_length=1024)]


class Wire(BaseModel):
    """Unknown fields are kept, so that they can be reported. Types are taken as they are sent: "5" is no number, 1 no truth."""

    model_config = ConfigDict(extra="allow", protected_namespaces=(), strict=True)

    def unknown_fields(self) -> list[str]:
        """Names of fields that nobody reads. Raises UserInputError for those that would change the answer."""
        extra = self.model_extra or {}
        for name, why in REFUSED.items():
            value = extra.get(name)
            if value is not None and value not in NEUTRAL.get(name, ()):
                raise UserInputError(f"{name}: not supported ({why})", field=name)
        return sorted(n for n in extra if n not in REFUSED)


class StreamOptions(Wire):
    include_usage: bool = False
    continuous_usage_stats: bool = False


class JsonSchema(Wire):
    name: str = "schema"
    schema_: dict[str, Any] | bool | None = Field(None, alias="schema")
    strict: bool | None = None
    description: str | None = None


class ResponseFormat(Wire):
    type: Literal["text", "json_object", "json_schema", "regex", "grammar"]
    json_schema: JsonSchema | None = None
    pattern: str | None = None
    grammar: str | None = None


class StructuredOutputs(Wire):
    """vLLM's form: exactly one of these."""

    json_: Any = Field(None, alias="json")
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None


class GenerationFields(Wire):
    """Fields of chat and text completion that have the same name in both."""

    model: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: Int | None = None
    min_p: float | None = None
    n: Int | None = None
    max_tokens: Int | None = None
    min_tokens: Int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool = False
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True
    seed: Int | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    allowed_token_ids: list[int] | None = None
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: Any = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    user: str | None = None
    cache_salt: Salt | None = None
    priority: Int = 0
    request_id: RequestId | None = None
    return_token_ids: bool | None = None

    def sampling(self, *, max_tokens: int | None, logprobs: int | None, prompt_logprobs: Int | None = None) -> SamplingParams:
        """Raises UserInputError naming the field that is out of range."""
        given = {
            name: getattr(self, name)
            for name in (
                "temperature", "top_p", "top_k", "min_p", "n", "min_tokens", "seed", "stop_token_ids", "presence_penalty", "frequency_penalty",
                "repetition_penalty", "stop", "allowed_token_ids",
            )
            if getattr(self, name) is not None
        }
        if self.stop is not None and not isinstance(self.stop, str) and len(self.stop) > 64:
            raise UserInputError(f"stop: at most 64 stop strings, got {len(self.stop)}", field="stop")
        bias: dict[int, float] = {}
        for key, value in (self.logit_bias or {}).items():
            if not key.isdecimal():
                raise UserInputError(f"logit_bias.{key}: keys are token ids", field="logit_bias")
            bias[int(key)] = value
        return SamplingParams(
            **given, max_tokens=max_tokens, logprobs=logprobs, prompt_logprobs=prompt_logprobs, logit_bias=bias, ignore_eos=self.ignore_eos,
            include_stop_str_in_output=self.include_stop_str_in_output, skip_special_tokens=self.skip_special_tokens,
        )

    def grammar(self) -> Grammar | None:
        """The one structured-output wish of the request, whichever of the three spellings it uses. Raises UserInputError for two of them."""
        found: list[tuple[str, Grammar]] = []
        f = self.response_format
        if f is not None and f.type == "json_schema":
            if f.json_schema is None or f.json_schema.schema_ is None:
                raise UserInputError("response_format.json_schema.schema: is missing", field="response_format.json_schema")
            found.append(("response_format", Grammar("json_schema", f.json_schema.schema_)))
        elif f is not None and f.type == "json_object":
            found.append(("response_format", Grammar("json_object", None)))
        elif f is not None and f.type in ("regex", "grammar"):
            source = f.pattern if f.type == "regex" else f.grammar
            if not source:
                raise UserInputError(f"response_format.{'pattern' if f.type == 'regex' else 'grammar'}: is missing", field="response_format")
            found.append(("response_format", Grammar("regex" if f.type == "regex" else "lark", source)))
        s = self.structured_outputs
        for name, kind, value in (
            ("guided_json", "json_schema", self.guided_json), ("guided_regex", "regex", self.guided_regex),
            ("guided_choice", "choice", self.guided_choice), ("guided_grammar", "lark", self.guided_grammar),
            ("structured_outputs.json", "json_schema", s and s.json_), ("structured_outputs.regex", "regex", s and s.regex),
            ("structured_outputs.choice", "choice", s and s.choice), ("structured_outputs.grammar", "lark", s and s.grammar),
            ("structured_outputs.json_object", "json_object", (s and s.json_object) or None),
        ):
            if value is not None:
                found.append((name, Grammar(kind, value)))
        if len(found) > 1:
            raise UserInputError(f"{found[0][0]} and {found[1][0]}: only one of them can shape the output", field=found[1][0])
        return found[0][1] if found else None
