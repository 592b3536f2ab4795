"""JSON lines end with a line feed and nothing else; the commands that read and write them survive what JSON can spell."""

import json

import pytest
from typer.testing import CliRunner

from headwater.cli.batch import read_requests
from headwater.cli.main import app, main
from headwater.core.jsonlines import encoded, numbered

RUN = CliRunner()
ASK = {"method": "POST", "url": "/v1/chat/completions"}


def body(text: str) -> dict:
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 2}


def test_separators_inside_a_text_end_no_line() -> None:
    value = {"a": "x\u2028y\u0085z\u2029"}
    text = "\ufeff" + encoded(value).decode() + "\r\n\n" + encoded({"b": 1}).decode()
    assert [(n, json.loads(line)) for n, line in numbered(text)] == [(1, value), (4, {"b": 1})]


def test_a_lone_surrogate_is_written_as_its_escape() -> None:
    assert json.loads(encoded({"a": "\ud800é"})) == {"a": "\ud800é"}


def test_batch_requests_may_hold_line_separators(tmp_path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_bytes(encoded({"custom_id": "a", **ASK, "body": body("x\u2028y")}))
    assert read_requests(file)[0]["body"]["messages"][0]["content"] == "x\u2028y"


def test_a_bad_request_of_a_batch_fails_alone(tmp_path) -> None:
    file, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    texts = {"good": body("hi"), "lone": body("\ud800"), "nan": {**body("hi"), "temperature": float("nan")}}
    file.write_bytes(b"".join(encoded({"custom_id": k, **ASK, "body": b}) for k, b in texts.items()))
    assert RUN.invoke(app, ["run-batch", str(file), "--out", str(out), "--model", "echo"]).exit_code == 2
    status = {x["custom_id"]: x["response"]["status_code"] for x in map(json.loads, out.read_text("utf-8").split("\n")[:-1])}
    assert status == {"good": 200, "lone": 400, "nan": 400}


@pytest.mark.parametrize("content", ["[1]\n", "no json\n", '{"other": 1}\n'])
def test_an_output_file_of_another_kind_is_named_not_overwritten(tmp_path, content) -> None:
    file, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    file.write_bytes(encoded({"custom_id": "a", **ASK, "body": body("hi")}))
    out.write_text(content)
    result = RUN.invoke(app, ["run-batch", str(file), "--out", str(out), "--model", "echo"])
    assert result.exit_code and "not the output of a batch" in str(result.exception) and out.read_text() == content


def test_decide_answers_states_with_separators_and_ids_that_are_no_text(tmp_path) -> None:
    file, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    questions = {"q": {"type": "noul", "instructions": "x"}}
    file.write_bytes(encoded({"id": "\ud800", "state": "a\u2028b", "questions": questions}) + b'"text"\n')
    assert RUN.invoke(app, ["decide", "run", str(file), "--out", str(out), "--model", "echo"]).exit_code == 2
    first, second = (json.loads(x) for x in out.read_text("utf-8").split("\n")[:-1])
    assert first["id"] == "\ud800" and "q" in first["answers"] and second["line"] == 2 and "error" in second


@pytest.mark.parametrize("line", ['"text"', "{", '{"state": "s", "questions": {}}', '{"state": "s", "questions": {}, "truth": 5}'])
def test_calibrate_names_the_line_that_it_cannot_use(tmp_path, line) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text(line + "\n")
    result = RUN.invoke(app, ["decide", "calibrate", str(file), "--out", str(tmp_path / "t.json"), "--model", "echo"])
    assert result.exit_code and f"{file}: line 1: " in str(result.exception)


@pytest.mark.parametrize("command", [["decide", "run"], ["decide", "calibrate"], ["run-batch"]])
def test_a_place_that_cannot_be_written_is_one_line(tmp_path, monkeypatch, capsys, command) -> None:
    file = tmp_path / "in.jsonl"
    file.write_bytes(encoded({"custom_id": "a", **ASK, "body": body("hi")}))
    out = tmp_path / "missing" / "out"
    monkeypatch.setattr("sys.argv", ["headwater", *command, str(file), "--out", str(out), "--model", "echo"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2 and capsys.readouterr().err == f"headwater: {out}: No such file or directory\n"
