"""What docs/security.md promises: who may reach a server, what of a request may act as code or as a path, and what must be said before it is open."""

import json
from collections.abc import Iterator

import httpx
import pytest
from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.core.errors import UserInputError
from tests.trouble.serving import PATIENCE, Served, serving

ASK = {"prompt": "abc", "max_tokens": 2}


def refused(*args: str) -> str:
    """What `headwater ARGS` says when it refuses its input."""
    error = CliRunner().invoke(app, args).exception
    assert isinstance(error, UserInputError), error
    assert "\n" not in str(error)
    return str(error)


@pytest.fixture(scope="module")
def echo() -> Iterator[Served]:
    with serving("echo", "--allowed-host", "models.example", "--cors", "http://pages.example") as served:
        yield served


# -- who may reach it --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "127.0.0.2"])
def test_an_address_beyond_loopback_needs_a_flag_of_its_own(host) -> None:
    assert "--allow-remote" in refused("serve", "echo", "--host", host, "--port", "0")


def test_being_open_without_a_key_is_said_aloud_and_with_one_it_is_not() -> None:
    args = ("echo", "--host", "127.0.0.2", "--allow-remote")        # loopback too, but not by its usual names
    with serving(*args) as served:
        assert any("without --api-key" in line for line in served.log)
    with serving(*args, "--api-key", "k") as served:
        assert not any("without --api-key" in line for line in served.log)


def test_a_key_file_without_a_key_is_no_open_server(tmp_path) -> None:
    (tmp_path / "keys").write_text("\n \n")
    assert "holds no key" in refused("serve", "echo", "--api-key-file", str(tmp_path / "keys"))


@pytest.mark.parametrize(("host", "status"), [
    ("localhost", 200), ("LOCALHOST:8000", 200), ("127.0.0.1:1", 200), ("[::1]:8000", 200), ("models.example", 200), ("models.example:443", 200),
    ("evil.example", 403), ("localhost.evil.example", 403), ("127.0.0.1.evil.example", 403), ("", 403), ("[::1", 403), ("a@localhost:x@evil", 403),
])
def test_a_name_that_is_not_the_servers_own_is_refused(echo, host, status) -> None:
    assert echo.post("/v1/completions", ASK, headers={"host": host}).status_code == status


@pytest.mark.parametrize(("origin", "status"), [
    ("http://pages.example", 200), ("http://evil.example", 403), ("https://pages.example", 403), ("null", 403), ("file://", 403), ("//[", 403),
])
def test_a_page_from_elsewhere_may_not_ask(echo, origin, status) -> None:
    assert echo.post("/v1/completions", ASK, headers={"origin": origin}).status_code == status


def test_the_servers_own_page_may_ask(echo) -> None:
    assert echo.post("/v1/completions", ASK, headers={"origin": echo.url}).status_code == 200


def test_browsers_get_no_cors_permission_unless_it_was_given(echo) -> None:
    def preflight(origin: str) -> httpx.Response:
        asked = {"origin": origin, "access-control-request-method": "POST"}
        return httpx.options(f"{echo.url}/v1/completions", headers=asked, timeout=PATIENCE)

    assert "access-control-allow-origin" not in preflight("http://evil.example").headers
    assert preflight("http://pages.example").headers["access-control-allow-origin"] == "http://pages.example"


# -- text of a request is text -----------------------------------------------------------------------------------------------------------

TEMPLATE = "{{ 7 * 191 }}{% for c in ''.__class__.__mro__ %}{{ c }}{% endfor %}"


def test_a_message_is_never_rendered_as_a_template(echo) -> None:
    r = echo.post("/tokenize", {"messages": [{"role": "user", "content": TEMPLATE}]})
    text = echo.post("/detokenize", {"tokens": r.json()["tokens"]}).json()["prompt"]
    assert TEMPLATE in text and "1337" not in text


def test_a_template_in_a_request_is_refused_by_name(echo) -> None:
    r = echo.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1, "chat_template": TEMPLATE})
    assert r.status_code == 400 and r.json()["error"]["param"] == "chat_template"


@pytest.mark.parametrize("name", ["../../../etc/passwd", "/etc/passwd", "hf:../../x", "..", "file:///etc/passwd", "echo/../echo", "\0"])
def test_a_model_name_in_a_request_is_compared_never_opened(echo, name) -> None:
    r = echo.post("/v1/completions", {**ASK, "model": name})
    assert r.status_code == 404 and r.json()["error"]["code"] == "model_not_found"
    assert echo.post("/api/show", {"model": name}).status_code == 404


# -- files of a command ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hf:../x", "hf:a/../../b", "hf:a/b:../../etc/passwd", "hf:a/b@..:../x", "nobody/../x"])
def test_a_model_reference_leads_out_of_no_folder(name, monkeypatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert name.removeprefix("hf:")[:8] in refused("complete", "x", "--model", name)


@pytest.mark.parametrize("url", ["/v1/models/../../etc/passwd", "file:///etc/passwd", "http://evil.example/v1/completions", "/v1/completions/../x"])
def test_a_batch_line_asks_only_endpoints_that_batches_may_ask(tmp_path, url) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text(json.dumps({"custom_id": "../../a", "method": "POST", "url": url, "body": ASK}) + "\n")
    assert "line 1: url" in refused("run-batch", str(file), "--model", "echo")
    assert list(tmp_path.iterdir()) == [file]
