"""headwater decide: typed questions over states from a file, without a server; calibration; the wording of the prompts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from headwater.core.jsonlines import encoded, numbered

app = typer.Typer(no_args_is_help=True, help="Typed questions over states: from JSON lines, resumable; calibration; prompt wording.")


@app.command("run")
def run(
    file: Path = typer.Argument(..., help="JSON lines: one System One body each (state, questions), optionally with an `id`."),
    out: Path = typer.Option(None, "--out", "-o", help="Where answers go, one line each (default: FILE with .answers.jsonl)."),
    model: str = typer.Option("smollm2-135m-instruct", "--model", help="A known name, a .gguf file, a folder or hf:ORG/REPO."),
    temperatures: Path = typer.Option(None, help="File of temperatures from `headwater decide calibrate`."),
    batch: int = typer.Option(8, min=1, help="States in the engine at once."),
) -> None:
    """Answer every line of FILE. A second run goes on where the first stopped; a bad line gets an error line of its own."""
    from rich.console import Console
    from rich.progress import Progress

    from headwater.llm import LLM

    target = out or file.with_name(file.stem + ".answers.jsonl")
    lines = list(_lines(file))
    done = _repair(target)
    if done > len(lines):
        from headwater.core.errors import UserInputError

        raise UserInputError(f"{target}: has {done:,} lines, {file} only {len(lines):,}; remove it or name another --out", field=str(target))
    console = Console(stderr=True)
    if done:
        console.print(f"{target} has {done:,} answers already; going on behind them")
    target.open("ab").close()                                        # a place that cannot be written is known before the model is loaded
    llm = LLM(model)
    failed = 0
    try:
        with Progress(console=console) as bar, target.open("ab") as sink:
            task = bar.add_task("states", total=len(lines), completed=done)
            for start in range(done, len(lines), batch):
                answers = answer_lines(llm, lines[start : start + batch], str(temperatures) if temperatures else None)
                failed += sum("error" in a for a in answers)
                sink.write(b"".join(encoded(a) for a in answers))
                sink.flush()
                bar.advance(task, len(answers))
    finally:
        llm.close()
    console.print(f"{len(lines) - done:,} states answered, {failed:,} with an error: {target}")
    if failed:
        raise typer.Exit(2)


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    from headwater.core.errors import UserInputError

    try:
        text = file.read_bytes().decode("utf-8")
    except OSError as e:
        raise UserInputError(f"{file}: {e.strerror}", field=str(file)) from None
    except UnicodeDecodeError as e:
        raise UserInputError(f"{file}: not UTF-8 at byte {e.start}", field=str(file)) from None
    yield from numbered(text)


def _repair(target: Path) -> int:
    """Whole lines in `target`; what a crash left behind the last newline is cut off."""
    if not target.exists():
        return 0
    data = target.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole != len(data):
        with target.open("rb+") as f:
            f.truncate(whole)
    return data[:whole].count(b"\n")


def answer_lines(llm: Any, lines: list[tuple[int, str]], temperatures: str | None) -> list[dict[str, Any]]:
    """One answer or error object per line; all states of the batch are in the engine together."""
    from pydantic import ValidationError

    from headwater.core.errors import HeadwaterError, UserInputError
    from headwater.decisions.types import DecisionRequest
    from headwater.serve.decide.systemone import SystemOneRequest, response, to_internal
    from headwater.serve.errors import describe_validation

    out: list[dict[str, Any]] = [{} for _ in lines]
    wanted: list[tuple[int, DecisionRequest]] = []
    for i, (number, line) in enumerate(lines):
        try:
            body = json.loads(line)
            if not isinstance(body, dict):
                raise UserInputError("must be an object")
            out[i] = {"id": body.pop("id")} if "id" in body else {"line": number}
            wanted.append((i, to_internal(SystemOneRequest.model_validate({"model": "inline", **body}), own_limits=True)))
        except ValidationError as e:
            out[i]["error"] = describe_validation(list(e.errors(include_url=False)))[0]
        except (HeadwaterError, ValueError, TypeError, RecursionError) as e:
            out[i] = {**(out[i] or {"line": number}), "error": str(e)}
    for i, result in llm.decide_requests(wanted, temperatures):
        if isinstance(result, HeadwaterError):
            out[i]["error"] = str(result)
        else:
            out[i] |= response(llm.name, result)
    return out


@app.command("calibrate")
def calibrate(
    data: Path = typer.Argument(..., help="JSON lines: System One bodies with `truth`: question name -> right answer (true/false, option, level)."),
    out: Path = typer.Option(Path("temperatures.json"), "--out", "-o", help="Where the fitted temperatures go."),
    model: str = typer.Option("smollm2-135m-instruct", "--model"),
    held_out: float = typer.Option(0.5, min=0.05, max=0.95, help="Share of the decisions that is kept for the report."),
    seed: int = typer.Option(0, help="Seed of the split."),
) -> None:
    """Fit one temperature per (type, option-count bucket) on one part of DATA, report accuracy, Brier, NLL and ECE on the rest."""
    import numpy as np
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table

    from headwater.core.errors import UserInputError
    from headwater.decisions.calibration import Sample, Temperatures, fit, report
    from headwater.llm import LLM

    if not out.parent.is_dir():                                      # known before hours of reading, without leaving an empty file
        raise UserInputError(f"{out}: No such file or directory", field=str(out))
    llm = LLM(model)
    samples: list[Sample] = []
    for number, line in track(list(_lines(data)), description="decisions", console=Console(stderr=True)):
        samples += _samples(llm, data, number, line)
    llm.close()
    if len(samples) < 20:
        raise UserInputError(f"{data}: {len(samples)} decisions with a truth, at least 20 are needed", field=str(data))
    order = np.random.default_rng(seed).permutation(len(samples))
    cut = round(len(samples) * (1 - held_out))
    train, test = [samples[i] for i in order[:cut]], [samples[i] for i in order[cut:]]
    fitted = fit(train)
    fitted.save(out)
    before, after = report(test, Temperatures()), report(test, fitted)
    table = Table("held out", "as read", "calibrated")
    for name in before:
        table.add_row(name, f"{before[name]:.4g}", f"{after[name]:.4g}")
    Console().print(table)
    Console().print({k: round(v, 3) for k, v in fitted.values.items()}, f"-> {out}")


def _samples(llm: Any, data: Path, number: int, line: str) -> list[Any]:
    import numpy as np
    from pydantic import ValidationError

    from headwater.core.errors import HeadwaterError, UserInputError
    from headwater.decisions.calibration import Sample, bucket
    from headwater.serve.decide.systemone import SystemOneRequest, to_internal
    from headwater.serve.errors import describe_validation

    where = f"{data}: line {number}"
    try:
        body = json.loads(line)
    except (ValueError, RecursionError) as e:
        raise UserInputError(f"{where}: not valid JSON ({e})", field=str(data)) from None
    truth = body.pop("truth", None) if isinstance(body, dict) else None
    if not isinstance(truth, dict):
        raise UserInputError(f"{where}: truth: an object of question name and right answer is needed", field=str(data))
    body.pop("id", None)
    try:
        request = to_internal(SystemOneRequest.model_validate({"model": "inline", **body}), own_limits=True)
        result = llm.decide_requests([(0, request)], None)[0][1]
        if isinstance(result, HeadwaterError):
            raise result
    except ValidationError as e:
        raise UserInputError(f"{where}: {describe_validation(list(e.errors(include_url=False)))[0]}", field=str(data)) from None
    except HeadwaterError as e:
        raise UserInputError(f"{where}: {e}", field=str(data)) from None
    out = []
    for answer in result.answers:
        q = answer.question
        if q.name not in truth:
            continue
        values = [o.value for o in q.options]
        if truth[q.name] not in values:
            raise UserInputError(f"{where}: truth.{q.name}: {truth[q.name]!r} is none of {values[:8]}", field=str(data))
        right = values.index(truth[q.name])
        out.append(Sample(f"{q.kind}:{bucket(len(values))}", np.log(np.maximum(answer.probabilities, 1e-300)), right))
    return out


@app.command("wording")
def wording_(version: int = typer.Option(1, help="Version of the prompt wording.")) -> None:
    """Print the prompts that the engine writes, one of each type."""
    from headwater.decisions import wording
    from headwater.decisions.annotations import Choice, Noul, Score, question_of

    print(wording.state_message("{state}", version))
    specs = {
        "predicate": Noul("{instructions}", "{yes}", "{no}"),
        "choice": Choice({"{option 1}": "{description}", "{option 2}": None}, "{instructions}"),
        "more than 26 options": Choice([f"{{option {i}}}" for i in range(1, 28)], "{instructions}"),
        "score": Score(["{lowest}", "{highest}"], "{instructions}"),
    }
    for name, spec in specs.items():
        ask = wording.ask(question_of("q", spec), range(len(question_of("q", spec).options)), False)
        print(f"\n--- {name}; labels {', '.join(ask.labels[:3])} …; answer starts with {ask.answer_prefix!r}\n{ask.text}")
