"""Learning rate and epochs where nobody gives them: by model and rows, and the same wherever they count."""

import dataclasses
import json
import signal
import subprocess
import sys

import pytest
import yaml

from calmix.experiments.grid import expand
from calmix.io.run_directory import RunDirectory
from calmix.training import default_settings
from calmix.training.configuration import TrainConfig
from calmix.training.distillation.teaching import teacher_config
from calmix.training.pipeline.fingerprint import Fingerprints
from calmix.training.pipeline.first_stage import plain_config
from calmix.training.pipeline.output_directory import as_begun
from calmix.training.pipeline.settling import choice_line, settle
from calmix.user_error import UserError
from cut_runs import KILLED
from tiny import read_json

BASE = TrainConfig(train="train.csv", output="run")


def checkpoint(folder, layers, width, *, is_sentence_encoder=False):
    """A directory that says how large its network is."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"num_hidden_layers": layers, "hidden_size": width}))
    if is_sentence_encoder:
        (folder / "modules.json").write_text("[]")
    return str(folder)


@pytest.mark.parametrize(
    ("layers", "width", "is_sentence_encoder", "rate"),
    [(6, 384, True, 2e-4), (6, 384, False, 1e-4), (12, 768, True, 3e-5), (12, 768, False, 3e-5),
     (24, 1024, False, 1e-5)],
)  # fmt: skip
def test_the_rate_follows_the_size_of_a_checkpoint(tmp_path, layers, width, is_sentence_encoder, rate):
    model = checkpoint(tmp_path / "net", layers, width, is_sentence_encoder=is_sentence_encoder)
    settled = settle(dataclasses.replace(BASE, model=model), rows=600)
    assert settled == dataclasses.replace(BASE, model=model, learning_rate=rate, epochs=6)


def test_the_embedded_encoder_is_a_small_sentence_encoder():
    assert settle(BASE, rows=2_000).learning_rate == 2e-4


def test_few_rows_are_seen_more_often_and_batches_count():
    assert [settle(BASE, rows).epochs for rows in (40, 100, 600, 2_000, 50_000, 500_000)] == [
        20,
        20,
        6,
        3,
        3,
        2,
    ]
    assert settle(dataclasses.replace(BASE, batch_size=64), 2_000).epochs == 7


@pytest.mark.parametrize(
    ("model", "rate", "epochs", "optimizer"), [("text-cnn", 1.0, 25, "adadelta"), ("vgg16", 0.1, 30, "sgd")]
)
def test_a_built_in_network_has_its_rate_with_its_optimiser(model, rate, epochs, optimizer):
    settled = settle(dataclasses.replace(BASE, model=model), rows=600)
    assert (settled.learning_rate, settled.epochs) == (rate, epochs)
    assert settled.optimizer.startswith(optimizer)
    assert settled.schedule is not None and settled.trainer == {"max_grad_norm": 0.0}
    # At the rate of its own optimiser another one would diverge.
    with pytest.raises(UserError, match="give learning_rate too"):
        settle(dataclasses.replace(BASE, model=model, optimizer="adamw"), rows=600)
    given = dataclasses.replace(BASE, model=model, optimizer="adamw", learning_rate=1e-3)
    assert settle(given, rows=600) == dataclasses.replace(given, epochs=epochs)


def test_what_is_given_stays():
    given = dataclasses.replace(BASE, learning_rate=7e-5, epochs=2)
    assert settle(given, rows=600) is given
    assert settle(dataclasses.replace(BASE, epochs=2), 600).learning_rate == 2e-4
    assert settle(dataclasses.replace(BASE, learning_rate=7e-5), 600).epochs == 6


def test_the_line_names_what_was_chosen_and_the_options_that_change_it():
    def line(**given):
        config = dataclasses.replace(BASE, **given)
        return choice_line(config, settle(config, 1_234), 1_234)

    assert line(learning_rate=1e-3) == "3 epochs (chosen for the embedded encoder and 1,234 rows; --epochs)"
    assert line(epochs=9) == (
        "learning rate 2e-4 (chosen for the embedded encoder and 1,234 rows; --learning-rate)"
    )
    assert line(model="text-cnn").startswith("learning rate 1, 25 epochs (chosen for text-cnn and ")


def test_a_run_begun_by_an_earlier_version_keeps_what_it_began_with(tmp_path):
    saved = {**dataclasses.replace(BASE, learning_rate=2e-5, epochs=3).as_dict()}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(saved))
    resumed = as_begun(BASE, RunDirectory(tmp_path))
    assert (resumed.learning_rate, resumed.epochs) == (2e-5, 3)
    assert resumed.differences(TrainConfig.from_dict(saved)) == []
    # What is given now is compared with it, as ever.
    other = as_begun(dataclasses.replace(BASE, epochs=4), RunDirectory(tmp_path))
    assert other.differences(TrainConfig.from_dict(saved)) == ["epochs"]


def test_a_killed_run_goes_on_with_its_settings_though_the_rule_has_changed(
    reviews, encoders, tmp_path, calmix, monkeypatch
):
    run = tmp_path / "run"
    begun = [
        "train", "--train", reviews / "train.csv", "--validation", reviews / "validation.csv", "--model",
        encoders("bert", layers=1), "--output", run, "--threads", 1, "--checkpoint-steps", 2,
        "--train-rows", 32,
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(KILLED), "calmix.training.trainer.Forward", "20", *map(str, begun)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
    assert "learning rate 1e-4, 20 epochs (chosen for " in done.stderr
    monkeypatch.setattr(default_settings, "SMALL", 5e-4)
    monkeypatch.setattr(default_settings, "MOST_EPOCHS", 3)
    code, _, err = calmix(*begun, "--resume")
    assert code == 0, err
    config, metrics = yaml.safe_load((run / "config.yaml").read_text()), read_json(run / "metrics.json")
    assert (config["learning_rate"], config["epochs"]) == (1e-4, 20)
    assert (metrics["learning_rate"], metrics["epochs"], len(metrics["history"])) == (1e-4, 20, 20)


def test_an_unsettled_configuration_is_the_run_of_its_settled_one(reviews, encoders):
    given = TrainConfig(
        train=str(reviews / "train.csv"), output="run", model=str(encoders("bert", layers=1)), train_rows=40
    )
    spelled = dataclasses.replace(given, learning_rate=1e-4, epochs=20)
    fingerprints = Fingerprints()
    assert fingerprints.settled(given) == spelled
    assert fingerprints.of(given) == fingerprints.of(spelled)
    assert fingerprints.choice(given).endswith("and 40 rows; --learning-rate, --epochs)")
    assert fingerprints.choice(spelled) is None


def test_arms_are_settled_by_their_model_and_alike_for_all_methods(reviews, encoders, tmp_path):
    large = checkpoint(tmp_path / "large", 24, 1024)
    base = TrainConfig(
        train=str(reviews / "train.csv"), validation=str(reviews / "validation.csv"), output="out",
        model=str(encoders("bert", layers=1)), train_region="all",
    )  # fmt: skip
    models = [base.model, large, "text-cnn"]
    arms = expand(base, ["plain", "cls-mixup", "tdmixup", "plain:train_region=easy"], {"model": models})
    fingerprints = Fingerprints()
    found = {}
    for arm in arms:
        settled = fingerprints.settled(arm.config(base, seed=1))
        found.setdefault(settled.model, set()).add((settled.learning_rate, settled.epochs))
    # 25 steps of 50 rows make the 25 epochs of the text CNN; all have the same 96 rows.
    assert found == {base.model: {(1e-4, 20)}, large: {(1e-5, 20)}, "text-cnn": {(1.0, 25)}}


def test_the_first_stage_of_a_guided_run_has_its_settings():
    guided = settle(dataclasses.replace(BASE, method="tdmixup"), rows=600)
    plain = plain_config(guided)
    assert (plain.learning_rate, plain.epochs) == (2e-4, 6)
    assert plain == settle(plain_config(dataclasses.replace(BASE, method="tdmixup")), rows=600)


class TestTeachersThatAreTrainedFirst:
    def settled(self, tmp_path, *, unlabelled=0, **given):
        config = dataclasses.replace(BASE, teacher=("plain",), teacher_model=str(tmp_path / "base"), **given)
        if not (tmp_path / "base").exists():
            checkpoint(tmp_path / "base", 12, 768)
        return settle(config, 600, unlabelled)

    def test_have_the_rate_of_their_own_model(self, tmp_path):
        student = self.settled(tmp_path)
        teacher = teacher_config(student, "plain")
        assert (student.learning_rate, student.epochs) == (2e-4, 6)
        assert (teacher.learning_rate, teacher.epochs) == (3e-5, 6)
        assert teacher.as_dict() == settle(dataclasses.replace(BASE, model=teacher.model), 600).as_dict()

    def test_have_the_rate_of_the_student_where_one_is_given(self, tmp_path):
        teacher = teacher_config(self.settled(tmp_path, learning_rate=1e-3), "plain")
        assert (teacher.learning_rate, teacher.epochs) == (1e-3, 6)
        teacher = teacher_config(
            self.settled(tmp_path, learning_rate=1e-3, teacher_learning_rate=4e-5), "plain"
        )
        assert teacher.learning_rate == 4e-5

    def test_see_their_rows_often_enough_where_the_student_has_many_more(self, tmp_path):
        student = self.settled(tmp_path, unlabelled=5_000)
        assert (student.epochs, teacher_config(student, "plain").epochs) == (3, 6)

    def test_are_the_same_for_a_student_that_is_read_from_its_file(self, tmp_path):
        student = self.settled(tmp_path, unlabelled=5_000)
        saved = TrainConfig.from_dict(yaml.safe_load(yaml.safe_dump(student.as_dict())))
        assert teacher_config(saved, "plain") == teacher_config(student, "plain")
        # And for one that is resumed by the command that began it.
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(student.as_dict()))
        given = dataclasses.replace(BASE, teacher=("plain",), teacher_model=str(tmp_path / "base"))
        assert as_begun(given, RunDirectory(tmp_path)) == student

    def test_leave_no_trace_in_the_file_of_a_student_that_needs_none(self):
        student = settle(dataclasses.replace(BASE, teacher=("plain",)), 600)
        assert not {"teacher_learning_rate", "teacher_epochs"} & set(student.as_dict())
        for name in ("teacher_learning_rate", "teacher_epochs"):
            with pytest.raises(UserError, match="without a teacher"):
                dataclasses.replace(BASE, **{name: 1})


@pytest.mark.parametrize("given", [{"learning_rate": 0.0}, {"learning_rate": -1e-4}, {"epochs": 0}])
def test_a_setting_of_nothing_is_refused_not_replaced(given):
    with pytest.raises(UserError, match=r"learning_rate|epochs"):
        dataclasses.replace(BASE, **given)


TOPICS = {
    "sport": "The {} scored twice and won the match,The coach praised the {} after the final",
    "money": "The bank raised the rates on its {},Shares of the {} company fell by a tenth",
    "food": "Bake the {} with butter until it is brown,The soup of {} and leeks was too salty",
    "weather": "Heavy rain and a cold {} are expected,The {} brought snow to the hills",
}
THINGS = ("striker", "goalkeeper", "loan", "fund", "bread", "carrot", "wind", "storm", "team", "cake")


def write_topics(folder, split, parity):
    """24 sentences of four topics; those of one split have other words than those of the other."""
    lines = [
        f"{form.format(thing)},{topic}"
        for topic, forms in TOPICS.items()
        for form in forms.split(",")
        for thing in THINGS[parity::4]
    ]
    (folder / f"{split}.csv").write_text("\n".join(["text,label", *lines]) + "\n")
    return folder / f"{split}.csv"


def test_the_embedded_encoder_learns_by_default_what_it_did_not_before(tmp_path, calmix):
    """What was the default before, 2e-5 and 3 epochs, hardly moves the network."""
    train, validation = write_topics(tmp_path, "train", 0), write_topics(tmp_path, "validation", 1)

    def train_it(name, *settings):
        code, _, err = calmix(
            "train", "--train", train, "--validation", validation, "--threads", 1, "--dynamics", "off",
            "--output", tmp_path / name, *settings,
        )  # fmt: skip
        assert code == 0, err
        metrics = read_json(tmp_path / name / "metrics.json")
        return err, metrics["learning"]["learned"], metrics["splits"]["validation"]["uncalibrated"]

    said, learned, before = train_it("before", "--learning-rate", 2e-5, "--epochs", 3)
    assert "chosen for" not in said and not learned
    said, learned, after = train_it("after")
    assert "learning rate 2e-4, 20 epochs (chosen for the embedded encoder and 24 rows; " in said
    assert learned
    assert before["accuracy"] < 0.9 and after["accuracy"] > 0.95
    assert after["nll"] < before["nll"] - 0.3
