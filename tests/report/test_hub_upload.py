"""`calmix push` against a stand-in of the Hub's HTTP interface on this machine."""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml

from calmix.io.run_directory import RunDirectory
from calmix.report.hub_upload import hub_card
from calmix.user_error import UserError
from calmix.workflows.push import push
from calmix.workflows.run import Run

CARD = """---
tags: [calmix]
model-index:
- name: run
  results: [{task: {type: text-classification}, metrics: [{type: ece, value: 0.02}]}]
---

# run

Text with --- in it.
"""


@pytest.fixture
def run(tmp_path):
    directory = RunDirectory(tmp_path / "run")
    directory.model.mkdir(parents=True)
    (directory.model / "README.md").write_text(CARD)
    (directory.model / "config.json").write_text('{"calmix_temperature": 1.5}')
    (directory.model / "model.safetensors").write_bytes(bytes(range(256)))
    (directory.model / ".hidden").write_text("not mine to show")
    (directory.path / "predictions").mkdir()
    (directory.path / "metrics.json").write_text("{}")
    return Run(directory)


@pytest.fixture
def hub(monkeypatch):
    """The four calls that a commit of small files takes; what was uploaded is in `files`."""

    class Hub(BaseHTTPRequestHandler):
        files, calls, status = {}, [], 200

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            Hub.calls.append((self.path, self.headers.get("Authorization")))
            if Hub.status != 200:
                return self.reply({"error": "no"}, Hub.status)
            if self.path == "/api/repos/create":
                name = json.loads(body)
                return self.reply({"url": f"{Hub.address}/{name['organization']}/{name['name']}"})
            if "/preupload/" in self.path:
                as_text = {"uploadMode": "regular", "shouldIgnore": False}
                return self.reply({"files": [{**file, **as_text} for file in json.loads(body)["files"]]})
            if self.path == "/api/validate-yaml":
                return self.reply({"errors": [], "warnings": []})
            for line in body.decode().splitlines():
                entry = json.loads(line)
                if entry["key"] == "file":
                    Hub.files[entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
            return self.reply(
                {"commitUrl": f"{Hub.address}/me/film/commit/{'0' * 40}", "commitOid": "0" * 40}
            )

        def reply(self, content, status=200):
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Hub.address = f"http://127.0.0.1:{server.server_port}"
    yield Hub
    server.shutdown()
    server.server_close()


def test_the_model_goes_up_in_one_commit_and_the_run_stays_as_it_is(run, hub):
    address = run.push_to_hub(
        "me/film",
        license="apache-2.0",
        languages=["en"],
        datasets=["me/reviews"],
        token="t",
        endpoint=hub.address,
    )
    assert address == f"{hub.address}/me/film"
    assert set(hub.files) == {"README.md", "config.json", "model.safetensors"}
    assert hub.files["model.safetensors"] == bytes(range(256))
    assert {authorization for _, authorization in hub.calls} == {"Bearer t"}
    _, front, text = hub.files["README.md"].decode().split("---\n", 2)
    facts = yaml.safe_load(front)
    assert (facts["license"], facts["language"], facts["datasets"]) == ("apache-2.0", ["en"], ["me/reviews"])
    assert facts["model-index"][0]["name"] == "film"
    assert facts["model-index"][0]["results"][0]["metrics"][0]["value"] == 0.02
    assert "Text with --- in it." in text
    assert (run.model_path / "README.md").read_text() == CARD


@pytest.mark.parametrize(
    ("status", "words"), [(401, "not valid"), (403, "may not write"), (500, "the Hub answered")]
)
def test_a_refusal_is_one_line(run, hub, status, words):
    hub.status = status
    with pytest.raises(UserError, match=words) as caught:
        push(run, "me/film", token="t", endpoint=hub.address)
    assert "\n" not in str(caught.value)
    assert not hub.files


@pytest.mark.parametrize("name", ["film", "me/too/deep", "me/..", "me/a b", "/film", ""])
def test_a_name_that_cannot_be_is_refused_before_anything_is_sent(run, hub, name):
    with pytest.raises(UserError, match="NAMESPACE/NAME"):
        push(run, name, token="t", endpoint=hub.address)
    assert not hub.calls


def test_without_a_token_it_says_how_to_log_in(run, monkeypatch):
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    with pytest.raises(UserError, match="hf auth login"):
        push(run, "me/film")


def test_offline_it_says_so_at_once(run, monkeypatch):
    monkeypatch.setattr("calmix.runtime.hub.is_reachable", lambda: False)
    with pytest.raises(UserError, match="cannot be reached"):
        push(run, "me/film", token="t")


def test_a_run_whose_model_was_dropped_is_refused(run, hub):
    (run.model_path / "model.safetensors").unlink()
    with pytest.raises(UserError, match="no saved model"):
        push(run, "me/film", token="t", endpoint=hub.address)


def test_metadata_that_are_not_given_are_left_out():
    facts = yaml.safe_load(
        hub_card(CARD, name="x", license=None, languages=(), datasets=()).split("---\n")[1]
    )
    assert not {"license", "language", "datasets"} & set(facts)


def test_a_hub_that_hangs_up_is_one_line(run, hub, monkeypatch):
    monkeypatch.setattr(hub, "do_POST", lambda self: self.connection.close())
    with pytest.raises(UserError, match="cannot be reached"):
        push(run, "me/film", token="t", endpoint=hub.address)
