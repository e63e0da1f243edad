"""Every kind of invalid input over all verbs, as one table: a name, the files to make, and the command.

In a command `GOOD` is a training file, `SCORES` a predictions file, `RUN` a finished run, `ENCODER` a
network, `OUT` an output that does not exist, `FILE` the damaged file; `TAGGED`, `SEVERAL` and `TAGRUN` are a
training file, a predictions file and a run of several labels.
"""

from __future__ import annotations

from collections.abc import Iterator

from bad_inputs import damaged_tables as tables
from bad_inputs import deployment_cases, label_cases
from bad_inputs.case import TRAIN, Case

DISTILL = ("distill", "--train", "GOOD", "--model", "ENCODER", "--output", "OUT", "--epochs", "1")
PREDICT = ("predict", "RUN", "--input", "GOOD", "--output", "OUT.csv")
EVALUATE = ("evaluate", "SCORES")
OOD = ("ood", "RUN", "--in", "GOOD", "--out", "other=GOOD")


def of_tables() -> Iterator[Case]:
    for name, content in tables.PREDICTIONS.items():
        yield Case(f"evaluate:{name}", ("evaluate", "FILE"), name, content)
        yield Case(
            f"fit-on:{name}", ("calibrate", "SCORES", "--fit-on", "FILE", "--output", "OUT"), name, content
        )
    for name, content in tables.TRAINING.items():
        yield Case(f"train:{name}", (*TRAIN, "--train", "FILE"), name, content)
        yield Case(f"validation:{name}", (*TRAIN, "--validation", "FILE"), name, content)


OPTIONS = {
    EVALUATE: (
        "--bins 0", "--bins -1", "--bins a", "--bins 1000000000", "--bins 1.5", "--closed middle",
        "--notion none", "--label-column nothing", "--prob-columns a,b", "--logit-columns prob_0,nothing",
        "--class-names a", "--class-names a,a", "--unknown 1", "--config nowhere.yaml",
        "--id-column nothing", "nowhere.csv", "--ensemble", "--mc-dropout 5", "--data GOOD",
        "--model nowhere",
    ),
    TRAIN: (
        "--epochs 0", "--epochs -1", "--epochs 1.5", "--epochs nan", "--epochs 99999999999999999999",
        "--batch-size 0", "--batch-size -4", "--batch-size 99999999999999999999", "--learning-rate 0",
        "--learning-rate -1", "--learning-rate nan", "--learning-rate inf", "--learning-rate a",
        "--max-length 0", "--max-length -1", "--seed -1", "--seed 9223372036854775808",
        "--seed 18446744073709551616", "--seed 4294967296", "--seed a", "--threads 0", "--threads -1",
        "--threads 100000000", "--checkpoint-minutes nan", "--checkpoint-minutes inf",
        "--model nobody/nothing", "--method cls-mixup --method-option alpha=!!int",
    ),
}  # fmt: skip


def of_options() -> Iterator[Case]:
    for command, values in OPTIONS.items():
        for value in values:
            yield Case(f"{command[0]} {value}", (*command, *value.split()), "nothing.bin", b"")


CONFIGURATIONS = {
    "torn": "epochs: [", "tab": "a:\tb\n\tc: d", "list": "- 1\n- 2", "word": "word", "number": "3",
    "unknown": "epoks: 3", "date": "epochs: 2021-13-45", "tag-int": "epochs: !!int abc",
    "tag-float": "learning_rate: !!float abc", "tag-time": "epochs: !!timestamp abc",
    "python": "epochs: !!python/object/apply:os.system ['true']", "binary": "epochs: !!binary '@'",
    "deep": "a: " + "[" * 5000, "deep-map": "{a: " * 3000 + "1" + "}" * 3000, "anchor": "epochs: *nowhere",
    "epochs-list": "epochs: [1, 2]", "epochs-word": "epochs: many",
    "rate-word": "learning_rate: small", "trainer-list": "trainer: [1]",
    "trainer-unknown": "trainer: {weight_dekay: 1}", "trust": "trust_remote_code: true",
    "method-options-word": "method_options: a", "method-options-unknown": "method_options: {nothing: 1}",
    "method-options-number": "method_options: {1: 1}", "model-options-number": "model_options: {1: 2}",
    "accumulation-0": "trainer: {gradient_accumulation_steps: 0}",
    "accumulation-negative": "trainer: {gradient_accumulation_steps: -1}",
    "bf16-word": "trainer: {bf16: banana}", "workers-negative": "trainer: {dataloader_num_workers: -1}",
    "eval-batch-0": "trainer: {per_device_eval_batch_size: 0}",
    "eval-delay": "trainer: {eval_delay: 99}", "eval-accumulation-0": "trainer: {eval_accumulation_steps: 0}",
    "optimizer": "trainer: {optim: nothing}",
    "schedule": "trainer: {lr_scheduler_type: nothing}",
    "weight-decay-word": "trainer: {weight_decay: heavy}",
    "weight-decay-nan": "trainer: {weight_decay: .nan}", "warm-up-negative": "trainer: {warmup_steps: -5}",
    "push-to-hub": "trainer: {push_to_hub: true}", "prediction-only": "trainer: {prediction_loss_only: true}",
    "deepspeed": "trainer: {deepspeed: nothing.json}", "report-to": "report_to: nothing",
    "report-to-number": "report_to: [1]", "liger": "trainer: {use_liger_kernel: true}",
    "number-without-digits": "method_options: {alpha: !!int }",
    "trainer-report": "trainer: {report_to: nothing}",
    "output-list": "output: [a]",
}  # fmt: skip


def of_configurations() -> Iterator[Case]:
    for name, text in CONFIGURATIONS.items():
        command = ("train", "--train", "GOOD", "--model", "ENCODER", "--config", "FILE")
        output = () if "output" in name else ("--output", "OUT")
        yield Case(f"config:{name}", (*command, *output), "config.yaml", text.encode())


# What is written over a file of a finished run, and the commands that read it.
DAMAGE = {
    "metrics.json": (
        {"empty": b"", "torn": b'{"splits": {"val', "list": b"[]"},
        (PREDICT, (*PREDICT, "--target-accuracy", "0.9"), ("evaluate", "RUN"), OOD,
         ("calibrate", "RUN", "--fit-on", "validation", "--output", "OUT"),
         (*TRAIN, "--method", "informed-mixup", "--plain-run", "RUN"), (*DISTILL, "--teacher", "RUN")),
    ),
    "config.yaml": (
        {"empty": b"", "torn": b"epochs: [1", "list": b"[]", "word": b"x",
         "python": b"a: !!python/object/apply:os.system ['true']"},
        (PREDICT, OOD, ("train", "--resume", "--output", "RUN"), ("export", "RUN", "--output", "OUT"),
         ("adapt", "RUN", "--perturbed", "--output", "OUT"),
         (*TRAIN, "--method", "informed-mixup", "--plain-run", "RUN")),
    ),
    "model/config.json": (
        {"empty": b"", "list": b"[]", "word": b'"x"'},
        (PREDICT, ("calibrate", "RUN", "--fit-on", "validation", "--output", "OUT"),
         ("export", "RUN", "--output", "OUT"), ("adapt", "RUN", "--perturbed", "--output", "OUT"),
         (*DISTILL, "--teacher", "RUN")),
    ),
}  # fmt: skip


def of_damaged_runs() -> Iterator[Case]:
    for file, (contents, commands) in DAMAGE.items():
        for kind, content in contents.items():
            for command in commands:
                name = " ".join(command[:1] + tuple(w for w in command if "RUN" in w or w.startswith("--t")))
                yield Case(f"{file}-{kind}:{name}", command, f"RUN/{file}", content)


CASES = [
    *of_tables(),
    *of_options(),
    *of_configurations(),
    *of_damaged_runs(),
    *label_cases.cases(),
    *deployment_cases.cases(),
]
