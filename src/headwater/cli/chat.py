"""headwater chat: talk to a model in the terminal."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli import options as o

if TYPE_CHECKING:
    from headwater.core.params import SamplingParams
    from headwater.llm import LLM

HELP = """/help             this list
/reset            forget the conversation (the system message stays)
/system TEXT      set the system message; without TEXT: remove it
/set NAME VALUE   temperature, top_p, top_k, max_tokens or seed; without VALUE: show
/undo             take the last question and answer back
/again            answer the last question anew
/save FILE        write the conversation as JSON
/stats            tokens, cache hits and speed of the last answer
/quit             leave (also Ctrl-D); Ctrl-C stops an answer"""
_NUMBERS: dict[str, type] = {"temperature": float, "top_p": float, "top_k": int, "max_tokens": int, "seed": int}


def chat(
    model: o.Model = o.DEFAULT_MODEL,
    system: Annotated[str, typer.Option(help="System message.")] = "",
    max_tokens: o.MaxTokens = None,
    temperature: o.Temperature = 0.7,
    top_p: o.TopP = 0.95,
    top_k: o.TopK = 0,
    seed: o.Seed = None,
    weights: o.Weights = "as-is",
    kv_memory: o.KvMemory = None,
    context: o.Context = None,
    threads: o.Threads = None,
    chat_template: o.ChatTemplate = None,
    draft: o.Draft = "none",
    attend: o.Attend = "dense",
    rope_scaling: o.RopeScaling = "",
    backend: o.Backend = "auto",
    accept_licence: o.AcceptLicence = False,
) -> None:
    """Chat with a model; the history is kept and its state reused from turn to turn."""
    from headwater.core.params import SamplingParams
    from headwater.llm import LLM

    params = SamplingParams(max_tokens=max_tokens, temperature=temperature, top_p=top_p, top_k=top_k, seed=seed)
    llm = LLM(
        model, weights=weights, kv_memory=kv_memory, context=context, threads=threads, draft=draft, attend=attend, rope_scaling=rope_scaling,
        chat_template=chat_template, backend=backend,
        accept_licence=accept_licence, progress=o.load_progress(),
    )
    Chat(llm, params, system).run()


@dataclass
class Chat:
    """One conversation. messages: as OpenAI writes them, without the system message."""

    llm: LLM
    params: SamplingParams
    system: str = ""
    messages: list[dict[str, str]] = field(default_factory=list)
    last: str = "nothing was answered yet"

    def run(self) -> None:
        """Read lines until the end; an empty line is nothing."""
        interactive = sys.stdin.isatty()
        if interactive:
            import readline  # noqa: F401  (line editing and history for input())

            print("/help lists the commands; Ctrl-D leaves.")
        while True:
            try:
                line = input("> " if interactive else "").strip()
            except EOFError:
                break
            except KeyboardInterrupt:
                print()
                continue
            if line.startswith("/"):
                if not self.command(*line.partition(" ")[::2]):
                    break
            elif line:
                self.ask(line)

    def command(self, name: str, rest: str) -> bool:
        """Run a slash command; False = leave."""
        rest = rest.strip()
        if name in ("/quit", "/exit"):
            return False
        actions: dict[str, Any] = {
            "/help": lambda: print(HELP), "/reset": self.messages.clear, "/system": lambda: setattr(self, "system", rest),
            "/set": lambda: self.set(rest), "/undo": self.undo, "/again": self.again, "/save": lambda: self.save(rest),
            "/stats": lambda: print(self.last),
        }
        action = actions.get(name)
        if action is None:
            print(f"unknown command {name}; /help lists them")
        else:
            action()
        return True

    def ask(self, text: str) -> None:
        """One turn: the answer streams; Ctrl-C keeps what came so far."""
        from headwater.core.errors import HeadwaterError

        self.messages.append({"role": "user", "content": text})
        head = [{"role": "system", "content": self.system}] if self.system else []
        parts: list[str] = []
        began = time.monotonic()
        first = 0.0

        def show(_: int, delta: Any) -> None:
            nonlocal first
            first = first or time.monotonic()
            parts.append(delta.text)
            print(delta.text, end="", flush=True)

        try:
            done = self.llm.chat([*head, *self.messages], self.params, on_delta=show)[0]
            n, seconds = len(done.outputs[0].token_ids), time.monotonic() - first
            self.last = (
                f"{len(done.prompt_token_ids):,} prompt tokens ({done.num_cached_tokens:,} reused), first token after {first - began:.2f} s, "
                f"{n:,} tokens at {(n - 1) / seconds if seconds > 0 else 0:.1f} per second, seed {done.outputs[0].x_seed}"
            )
        except KeyboardInterrupt:
            print(" [stopped]", end="")
        except HeadwaterError as e:
            self.messages.pop()
            print(f"headwater: {e}", file=sys.stderr)
            return
        print()
        self.messages.append({"role": "assistant", "content": "".join(parts)})

    def set(self, rest: str) -> None:
        """/set NAME VALUE"""
        from headwater.core.errors import UserInputError

        name, _, value = rest.partition(" ")
        if name not in _NUMBERS or not value:
            print("\n".join(f"{n} {getattr(self.params, n)}" for n in ([name] if name in _NUMBERS else _NUMBERS)))
            return
        try:
            change: dict[str, Any] = {name: None if value == "none" else _NUMBERS[name](value)}
            self.params = replace(self.params, **change)
        except (ValueError, UserInputError) as e:
            print(f"{name}: {e}")

    def undo(self) -> None:
        """Drop the last user message and everything after it."""
        while self.messages and self.messages.pop()["role"] != "user":
            pass

    def again(self) -> None:
        """Answer the last question anew."""
        questions = [m["content"] for m in self.messages if m["role"] == "user"]
        if questions:
            self.undo()
            self.ask(questions[-1])

    def save(self, path: str) -> None:
        """Write the messages as JSON."""
        import json
        from pathlib import Path

        head = [{"role": "system", "content": self.system}] if self.system else []
        try:
            Path(path).write_text(json.dumps([*head, *self.messages], ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        except OSError as e:
            print(f"/save {path}: {e.strerror}")
