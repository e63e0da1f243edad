"""What a newcomer meets first: a bare call, a missing package, an interruption."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

BLOCKED = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "accelerate", "datasets", "PIL"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
"""


def run_python(code, **settings):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, **settings)


def command(*arguments):
    return f"{BLOCKED}\nfrom calmix.cli.app import main\nmain({[str(argument) for argument in arguments]!r})"


def test_a_bare_call_explains_how_to_begin(calmix):
    code, out, err = calmix()
    assert (code, err) == (0, "")
    assert "calmix train --train reviews.csv" in " ".join(out.split())
    assert "calmix demo" in out


@pytest.mark.parametrize("arguments", [("-h",), ("train", "-h"), ("ood", "-h")])
def test_h_is_help(calmix, arguments):
    code, out, _ = calmix(*arguments)
    assert code == 0
    assert "Usage: calmix" in out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_can_be_shown(calmix, shell, monkeypatch):
    # Otherwise typer looks which shell started the tests; there need not be any.
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    code, out, _ = calmix("--show-completion", shell)
    assert code == 0
    assert "_CALMIX_COMPLETE" in out


def test_without_torch_predictions_are_measured_and_calibrated(tmp_path):
    rows = "\n".join(f"{n % 2},{0.9 if (n % 2 == 0) ^ (n % 7 == 0) else 0.1}" for n in range(200))
    lines = [line.split(",") for line in rows.splitlines()]
    text = "label,prob_0,prob_1\n" + "\n".join(f"{y},{p},{round(1 - float(p), 2)}" for y, p in lines)
    file = tmp_path / "predictions.csv"
    file.write_text(text + "\n")
    assert run_python(command("evaluate", file)).returncode == 0
    done = run_python(command("calibrate", file, "--fit-on", file, "--output", tmp_path / "out"))
    assert (done.returncode, done.stderr) == (0, "")
    assert run_python(command("methods")).returncode == 0


def test_without_torch_rows_are_mapped(tmp_path):
    folder = tmp_path / "dynamics"
    folder.mkdir()
    for epoch in range(3):
        lines = [
            {"guid": n, f"logits_epoch_{epoch}": [n % 5 - epoch, epoch * (n % 3)], "gold": n % 2}
            for n in range(30)
        ]
        (folder / f"dynamics_epoch_{epoch}.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    done = run_python(command("map", folder, "--output", tmp_path / "map", "--json"))
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "map" / "datamap.html").is_file()


@pytest.mark.parametrize("named", [["--model", "owner/name"], ["--train", "owner/name"]])
def test_without_torch_a_hub_name_names_the_extra(tmp_path, named):
    data = tmp_path / "train.csv"
    data.write_text("text,label\n" + "\n".join(f"row {n},{n % 2}" for n in range(40)))
    blocked = command("train", "--train", data, *named, "--output", tmp_path / "run").replace(
        '"PIL")', '"PIL", "huggingface_hub")'
    )
    done = run_python(blocked)
    assert done.returncode == 2
    assert "is not installed; pip install 'calmix[train]'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_torch_training_names_the_extra(tmp_path):
    data = tmp_path / "train.csv"
    data.write_text("text,label\n" + "\n".join(f"row {n},{n % 2}" for n in range(40)))
    done = run_python(command("train", "--train", data, "--output", tmp_path / "run"))
    assert done.returncode == 2
    assert done.stderr == "calmix: this needs torch, which is not installed; pip install 'calmix[train]'\n"
    assert not (tmp_path / "run").exists()


def test_without_torch_a_public_name_says_what_to_install():
    done = run_python(f"{BLOCKED}\nimport calmix\ncalmix.MixupTrainer")
    assert "calmix.MixupTrainer: this needs" in done.stderr
    assert "pip install 'calmix[train]'" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize(("number", "code", "word"), [(2, 130, "interrupted"), (15, 143, "terminated")])
def test_a_signal_ends_with_one_line_that_says_how_to_continue(
    tmp_path, encoders, reviews, number, code, word
):
    run = tmp_path / "run"
    process = subprocess.Popen(
        [
            sys.executable, "-m", "calmix", "train", "--train", reviews / "train.csv", "--model",
            encoders("bert"), "--epochs", "100000", "--learning-rate", "1e-4", "--output", run,
        ],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        # A shell starts background jobs with SIGINT ignored, and children inherit it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while not (run / "config.yaml").exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    time.sleep(1)
    process.send_signal(signal.Signals(number))
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in err
    assert err.splitlines()[-1] == f"calmix: {word}; continue with 'calmix train --resume --output {run}'"


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("number", [2, 15])
def test_a_signal_after_the_end_of_a_command_leaves_its_exit_code(number):
    # Python frees its modules after it has taken its signal handlers back.
    done = run_python(f"""
import os
from calmix.cli.interruption import leave_on_signals
class Late:
    def __del__(self, kill=os.kill, process=os.getpid()):
        kill(process, {number})
late = Late()
leave_on_signals(0)
""")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_damaged_file_is_no_interruption(monkeypatch):
    from calmix.cli import app

    def damaged(as_json: bool = False) -> None:
        raise EOFError("the file is empty")

    broken = app.typer.Typer()
    broken.command("methods")(damaged)
    broken.callback()(lambda: None)
    monkeypatch.setattr(app, "app", broken)
    with pytest.raises(EOFError, match="the file is empty"):
        app.main(["methods"])


# (arguments, what is said); DATA is a good file, OUT a place to write to; the last of two options counts.
TRAIN = [
    "train",
    "--train",
    "DATA",
    "--model",
    "text-cnn",
    "--output",
    "OUT",
]  # the last of two options counts
WRONG = [
    ([*TRAIN, "--train", "missing.csv"], "missing.csv: no such file"),
    ([*TRAIN, "--test", "missing.csv"], "missing.csv: no such file"),
    ([*TRAIN, "--text-column", "nope"], "no column 'nope'"),
    ([*TRAIN, "--method", "nope"], "unknown method 'nope'"),
    ([*TRAIN, "--method", "cls-mixup", "--alpha", "-1"], "alpha is -1"),
    ([*TRAIN, "--method-option", "nope=1"], "has no option 'nope'"),
    ([*TRAIN, "--device", "nope"], "--device is 'nope'"),
    ([*TRAIN, "--dynamics", "nope"], "--dynamics is 'nope'"),
    ([*TRAIN, "--optimizer", "nope", "--learning-rate", "1"], "no such optimiser 'nope'"),
    ([*TRAIN, "--schedule", "step:factor=2"], "give a factor above 0"),
    ([*TRAIN, "--label-smoothing", "2"], "--label-smoothing is 2.0; give a number of at least 0 and below 1"),
    ([*TRAIN, "--epochs", "-1"], "--epochs is -1"),
    ([*TRAIN, "--model-option", "dropout=2"], "--model-option dropout=2"),
    ([*TRAIN, "--model", "nobody/nothing"], "the hub cannot be reached"),
    ([*TRAIN, "--model", "no/such/place"], "no such directory"),
    ([*TRAIN, "--train", "nobody/nothing"], "the hub cannot be reached"),
    ([*TRAIN, "--plain-run", "nowhere"], "no such run directory"),
    ([*TRAIN, "--output", "DATA"], "a file is in the way"),
    (["compare", "--methods", "plain,nope", "--train", "DATA", "--output", "OUT"], "unknown method 'nope'"),
    (["compare", "--methods", "plain", "--train", "missing.csv", "--output", "OUT"], "no such file"),
    (["distill", "--teacher", "nobody", "--train", "DATA", "--output", "OUT"], "no such teacher"),
    (["predict", "missing", "--input", "DATA", "--output", "OUT.csv"], "missing: no such"),
    (["evaluate", "missing.csv"], "missing.csv: no such file"),
    (["calibrate", "missing", "--fit-on", "validation", "--output", "OUT"], "missing: no such"),
    (["map", "missing", "--output", "OUT"], "missing: no such"),
    (["ood", "missing", "--out", "DATA"], "missing: no such"),
]
ASK_ALL = """
import contextlib, io, json
from calmix.cli.app import main
said = []
for arguments in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            main(arguments)
        except SystemExit as ended:
            said.append((ended.code, err.getvalue()))
print(json.dumps(said))
"""


def test_what_is_wrong_with_a_command_is_said_before_torch_is_loaded(tmp_path):
    data = tmp_path / "train.csv"
    data.write_text("text,label\n" + "\n".join(f"row {n},{n % 2}" for n in range(40)))
    places = {"DATA": str(data), "OUT": str(tmp_path / "run"), "OUT.csv": str(tmp_path / "out.csv")}
    asked = [[places.get(part, part) for part in arguments] for arguments, _ in WRONG]
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED + ASK_ALL, json.dumps(asked)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        check=True,
    )
    for (arguments, said), (code, line) in zip(WRONG, json.loads(done.stdout), strict=True):
        assert said in line, (arguments, line)
        assert (code, line.count("\n")) == (2, 1), (arguments, line)
    assert [path.name for path in tmp_path.iterdir()] == ["train.csv"]
