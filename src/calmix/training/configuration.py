"""`TrainConfig`: every option of a run, declared once, checked, and as it is saved with the run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from calmix.runtime.option_values import (
    CLOSED,
    DEVICES,
    DYNAMICS,
    NATURAL,
    NONE,
    PERTURBED,
    SAMPLINGS,
    parse_bins,
    parse_class_weights,
    parse_label_map,
    parse_names,
    parse_trackers,
)
from calmix.training.epochs.rules import NLL_AFTER_TEMPERATURE, RULES
from calmix.training.option_checks import check_together
from calmix.training.options import (
    COMMON,
    DATA,
    DISTILLATION,
    REQUIRED,
    RUN,
    TRAINING,
    check_known,
    option,
    options_of,
)

if TYPE_CHECKING:
    from calmix.data.columns import ColumnNames

ALL_ROWS = "all"
NO_TEACHER = "none"
SAMPLES = ("stratified", "random")
TEMPERATURE_FITS = ("optimum", "grid")
CALIBRATORS = ("temperature", "temperature-bias", "vector", "structured", "auto", PERTURBED)
REGIONS = (ALL_ROWS, "easy", "ambiguous", "hard", "easy+ambiguous")
METHODS = (
    "plain, aum-saliency, cls-mixup, erl, features-only, focal, informed-mixup, input-mixup, "
    "kernel-warping, manifold-mixup, on-off-manifold, rankmixup, regmixup or tdmixup"
)
# Fields of the Trainer that decide what trackers are told, and nothing about the result.
REPORTING = (
    "run_name", "project", "trackio_space_id", "trackio_bucket_id", "trackio_static_space_id",
    "logging_strategy", "logging_steps", "logging_first_step",
)  # fmt: skip
# Chosen by model and rows where nobody gives them; a teacher that is trained first may have its own.
TEACHERS_OWN = {"learning_rate": "teacher_learning_rate", "epochs": "teacher_epochs"}
LARGEST_SEED = 2**32 - 1  # numpy takes no larger one


@dataclass(frozen=True)
class TrainConfig:
    """What a run is made of. Two runs of equal configuration and data are equal to the bit on one device.

    A new option is one more field: `calmix.training.options` says what follows from its declaration.
    """

    # fmt: off
    train: str = option(
        REQUIRED, "Training file, directory of splits or hub dataset.",
        COMMON, affects="content", private=True,
    )
    output: str = option(REQUIRED, "The run directory to create.", COMMON, affects="nothing", private=True)
    validation: str | None = option(
        None, "Validation file. Default: a tenth of the training rows.",
        COMMON, affects="content", private=True,
    )
    test: tuple[str, ...] = option(
        (), "[NAME=]FILE; the first is in-domain. Repeatable.",
        COMMON, affects="content", private=True,
    )
    model: str = option(
        "default",
        "'default', a checkpoint, a hub name, or randomly initialised: text-cnn; for images vgg16, "
        "resnet18, resnet34, resnet50, resnet-small.",
        COMMON, affects="content", vary=True, private=True,
    )
    method: str = option("plain", f"{METHODS}: see 'calmix methods'.", COMMON, vary=False, trainer="method")
    seed: int = option(
        0, "Runs with the same seed are bit-identical.",
        COMMON, vary=False, least=0, most=LARGEST_SEED, trainer="seed",
    )
    trust_remote_code: bool = option(
        False,
        "Run the Python files that a checkpoint contains. Only for code that you have read.",
        # Every call gives it again: a file may come with a run that somebody else has made.
        COMMON, affects="nothing", saved=False,
    )

    text_column: str | None = option(None, "Default: text.", DATA, affects="content")
    pair_column: str | None = option(None, "Default: text_pair.", DATA, affects="content")
    choices_column: str | None = option(None, "Default: choices.", DATA, affects="content")
    label_column: str | None = option(None, "Default: label.", DATA, affects="content")
    id_column: str | None = option(None, "Default: rows are numbered.", DATA, affects="content")
    image_column: str | None = option(None, "Default: image.", DATA, affects="content")
    weight_column: str | None = option(
        None, "Column of weights: how much each row counts in the loss, the temperature and the metrics.",
        DATA, affects="content",
    )
    annotations_column: str | None = option(
        None, "Column with a list of labels by several annotators; the target is the share of each class.",
        DATA, affects="content",
    )
    label_prob_columns: tuple[str, ...] = option(
        (), "Columns with the probability of each class as soft labels: names, or a pattern 'label_prob_*'.",
        DATA, affects="content", parse=parse_names,
    )
    multi_label: bool = option(
        False, "Rows have several labels, or none: the label column holds lists of names.",
        DATA, affects="content",
    )
    label_separator: str | None = option(
        None, "Separator of several labels in the label column, such as ';'. Implies --multi-label.",
        DATA, affects="content",
    )
    label_columns: tuple[str, ...] = option(
        (), "Columns of 0 and 1, one per label: NAME,NAME,... Implies --multi-label.",
        DATA, affects="content", parse=parse_names,
    )
    label_map: dict[str, Any] = option(
        {}, "NAME=CLASS: the label NAME in the file means CLASS. Repeatable.",
        DATA, affects="content", parse=parse_label_map,
    )
    drop_unlabelled: bool = option(
        False, "Leave out rows whose label is missing or -1, and count them.",
        DATA, affects="content",
    )
    train_rows: int | None = option(
        None, "Train on a sample of this many rows, drawn by the seed (see --train-sample).",
        DATA, least=2,
    )
    train_sample: str = option(
        "stratified", "How the rows of --train-rows are drawn.",
        DATA, choices=SAMPLES, needs="train_rows",
    )
    train_region: str = option(
        ALL_ROWS, "Train on a region of a plain run's data map.",
        DATA, choices=REGIONS,
    )
    aum_filter: bool = option(False, "Leave out rows of the region with doubtful labels.", DATA)
    aum_quantile: float = option(
        0.8, "Keep rows with an AUM above this quantile over the threshold samples.",
        DATA, above=0, most=1, formerly="aum_percentile",
    )

    model_options: dict[str, Any] = option(
        {}, "NAME=VALUE of a randomly initialised network, such as dropout=0.3; head=linear of a checkpoint: "
        "one layer on [CLS].",
        TRAINING, affects="content",
    )
    label_smoothing: float = option(
        0.0, "ε: targets are 1 - ε for the true class, ε/(C-1) for each other class.",
        TRAINING, affects="content", least=0, below=1,
    )
    class_weights: str = option(
        NONE,
        "Class weights in the loss: balanced, none or NAME=WEIGHT,...; the bias of the "
        "head is corrected for them at the end, so that scores stay calibrated.",
        TRAINING, parse=parse_class_weights, trainer="class_weights",
    )
    sampling: str = option(
        NATURAL, "balanced: equally many training rows of every class; corrected like class weights.",
        TRAINING, choices=SAMPLINGS, trainer="sampling",
    )
    method_options: dict[str, Any] = option(
        {}, "NAME=VALUE, an option of the method.",
        TRAINING, affects="content",
    )
    epochs: int | None = option(
        None,
        "Passes over the training rows. Default: 2 to 20, more for fewer rows (text-cnn 25, images 30).",
        TRAINING, least=1, most=1_000_000, trainer="num_train_epochs",
    )
    batch_size: int = option(
        16, "Rows per device (text-cnn 50, images 128).",
        TRAINING, least=1, most=1_000_000, trainer="per_device_train_batch_size",
    )
    first_stage_batch_size: int | None = option(
        None, "Rows per device of the plain run and the threshold passes. Default: --batch-size.",
        TRAINING, least=1,
    )
    learning_rate: float | None = option(
        None,
        "It decays linearly to 0. Default by model: 2e-4 for the embedded encoder, 3e-5 for a "
        "checkpoint of base size (text-cnn 1, images 0.1: see --schedule).",
        TRAINING, above=0, below=10, trainer="learning_rate",
    )
    optimizer: str | None = option(
        None, "adamw, sgd:momentum=0.9:weight_decay=5e-4 or adadelta:rho=0.95. Default: by the model.",
        TRAINING, trainer="optimizer",
    )
    schedule: str | None = option(
        None, "linear, constant or step:epochs=[60,120,160]:factor=0.5. Default: by the model.",
        TRAINING, trainer="schedule",
    )
    augment: str | None = option(
        None, "Augmentation of training images: crop, flip, rotation, resized. Default: none.", TRAINING
    )
    max_length: int = option(256, "Longer texts are truncated to this many tokens.", TRAINING, least=4)
    student_layers: int | None = option(
        None, "Keep this many layers of the checkpoint, evenly spaced, with the first and the last.",
        TRAINING, least=1,
    )
    freeze_embeddings: bool = option(False, "Do not train the word embeddings: faster.", TRAINING)
    lora: str | None = option(
        None,
        "Train low-rank updates and the head, merged at the end: rank=8:alpha=16:targets=query,value.",
        TRAINING,
    )
    freeze_layers: int | None = option(
        None, "Freeze the embeddings and the first N layers, and cache their activations: faster.",
        TRAINING, least=1,
    )
    freeze_cache: str = option(
        "float32", "Precision of cached activations; off: frozen layers run in every step.",
        TRAINING, choices=("float32", "float16", "off"), needs="freeze_layers",
    )
    freeze_cache_limit: float = option(
        20.0, "GiB of disk for cached activations; the least recently used are removed.",
        TRAINING, affects="nothing", vary=False, above=0, needs="freeze_layers",
    )
    precision: str = option(
        "auto", "Precision of the layers in training; auto: bfloat16 if the processor supports it.",
        TRAINING, choices=("auto", "float32", "bfloat16"), trainer="precision",
    )
    select_by: str = option(
        NLL_AFTER_TEMPERATURE,
        "The validation metric that selects the epoch; 'last': the last epoch.",
        TRAINING, choices=tuple(RULES),
    )
    evaluate_every: int = option(
        1, "Epochs between evaluations on the validation rows; the last epoch is always evaluated.",
        TRAINING, least=1, most=1_000_000,
    )
    calibrator: str = option(
        "temperature",
        "What is fitted on the validation rows and folded into the model; auto: by cross-validation. "
        "perturbed: the temperature, and in RUN/perturbed a second model for data of an unknown domain.",
        TRAINING, choices=CALIBRATORS,
    )
    temperature_fit: str = option(
        "optimum",
        "The optimum, or the best on the papers' grid: 0.01, 0.02, ..., 5.00.",
        TRAINING, choices=TEMPERATURE_FITS,
    )
    keep_epoch_predictions: bool = option(
        False, "Keep the predictions of every epoch on the test sets, in RUN/epochs.",
        RUN, vary=False,  # changes what a run holds: one without them is not found in their place
    )
    dynamics: str = option(
        "training", "When training dynamics are recorded.",
        TRAINING, choices=DYNAMICS, trainer="dynamics",
    )
    device: str = option("auto", "Where to train.", TRAINING, vary=False, choices=DEVICES)
    threads: int | None = option(
        None, "CPU threads. Default: all cores.", TRAINING, vary=False, least=1, most=4096
    )
    plain_run: str | None = option(
        None,
        "The plain run a guided method starts from. Default: a stored or new one with the same settings.",
        TRAINING, affects="content", vary=True, private=True,
    )
    trainer: dict[str, Any] = option(
        {}, "Any further field of transformers.TrainingArguments.",
        TRAINING, vary=False, flag=False,
    )

    teacher: tuple[str, ...] = option(
        (),
        "A run, a checkpoint, a predictions file with row ids, or a method to train a teacher with first;"
        " repeatable: the probabilities are averaged.",
        DISTILLATION, affects="content", vary=True, private=True,
    )
    distill_temperature: float = option(
        1.0, "Temperature of teacher and student in the distillation loss.",
        DISTILLATION, above=0, most=1000, needs="teacher", trainer="distill_temperature", formerly="tau",
    )
    label_weight: float = option(
        0.5, "α, the weight of the method's own loss on the labels; that of the teacher is 1 - α.",
        DISTILLATION, least=0, most=1, needs="teacher", trainer="label_weight", formerly="hard_weight",
    )
    teacher_temperature: bool = option(
        True, "Learn the teacher's calibrated predictions, or the uncalibrated ones.",
        DISTILLATION, needs="teacher",
    )
    unlabelled: str | None = option(
        None, "Further rows, learned from the teacher alone; labels are not read.",
        DISTILLATION, affects="content", vary=True, private=True, needs="teacher",
    )
    teacher_model: str | None = option(
        None, "For a teacher that is trained first. Default: --model.",
        DISTILLATION, affects="content", vary=True, private=True, needs="teacher",
    )
    teacher_label_smoothing: float = option(
        0.0, "For a teacher that is trained first.",
        DISTILLATION, affects="content", vary=True, least=0, below=1, needs="teacher",
    )
    teacher_options: dict[str, Any] = option(
        {}, "NAME=VALUE, an option of the method of a teacher that is trained first.",
        DISTILLATION, affects="content", needs="teacher",
    )
    teacher_learning_rate: float | None = option(
        None, "For a teacher that is trained first. Default: --learning-rate, or by its model.",
        DISTILLATION, affects="content", vary=True, above=0, below=10, needs="teacher",
    )
    teacher_epochs: int | None = option(
        None, "For a teacher that is trained first. Default: --epochs, or by its rows.",
        DISTILLATION, affects="content", vary=True, least=1, needs="teacher",
    )

    checkpoint_steps: int | None = option(
        None, "Steps between checkpoints.",
        RUN, affects="nothing", least=1, trainer="checkpoint_steps",
    )
    checkpoint_minutes: float = option(
        5.0, "Minutes between checkpoints.",
        RUN, affects="nothing", least=0, trainer="checkpoint_minutes",
    )
    report_to: tuple[str, ...] = option(
        (),
        "Trackers: tensorboard (in RUN/tensorboard), wandb, mlflow, trackio. They get losses, the metrics of "
        "every split and the reliability diagrams. Repeatable.",
        RUN, affects="nothing", parse=parse_trackers, trainer="report_to",
    )
    bins: tuple[int, ...] = option(
        (15,), "Bins of the calibration errors (15). A list such as 10,15,100: all metrics use the first.",
        RUN, affects="record", parse=parse_bins,
    )
    slice: str | None = option(
        None,
        "COLUMN of validation and test files: measure each of its values too, and name the worst.",
        RUN, affects="record",
    )
    closed: str = option(
        "right", "On which side bins are closed.",
        RUN, affects="record", choices=CLOSED, formerly="edges",
    )
    # fmt: on

    def __post_init__(self) -> None:
        if self.teacher in (NO_TEACHER, (NO_TEACHER,), [NO_TEACHER]):
            object.__setattr__(self, "teacher", ())
        for name, declared in OPTIONS.items():
            object.__setattr__(self, name, declared.check(getattr(self, name)))
        check_together(self, OPTIONS)

    @property
    def batch_size_of_first_stage(self) -> int:
        """Of the plain run and the threshold passes: a guided batch may hold rows of two sets."""
        return self.first_stage_batch_size or self.batch_size

    def without_teacher(self) -> TrainConfig:
        """The same run, taught by nobody."""
        return dataclasses.replace(self, **{name: DEFAULTS[name] for name in TAUGHT})

    @property
    def has_label_sets(self) -> bool:
        """Whether rows have several labels, or none: as any of three options says."""
        return self.multi_label or self.label_separator is not None or bool(self.label_columns)

    @property
    def is_settled(self) -> bool:
        """Whether learning rate and epochs are there; else they are chosen by model and rows."""
        return all(getattr(self, name) is not None for name in TEACHERS_OWN)

    def columns(self) -> ColumnNames:
        from calmix.data.columns import ColumnNames

        named = ColumnNames.from_options(
            text=self.text_column,
            pair=self.pair_column,
            choices=self.choices_column,
            label=self.label_column,
            id=self.id_column,
            image=self.image_column,
            weight=self.weight_column,
        ).with_soft_labels(self.annotations_column, self.label_prob_columns)
        named = replace(named, slice=self.slice)
        named = named.with_label_sets(self.multi_label, self.label_separator, self.label_columns)
        return named.with_labels(self.label_map, drop_unlabelled=self.drop_unlabelled)

    def network_settings(self) -> dict[str, Any]:
        """What decides how the network is made, beside its name and the rows."""
        return {
            "seed": self.seed,
            "max_length": self.max_length,
            "augment": self.augment,
            "options": self.model_options,
            "trust_remote_code": self.trust_remote_code,
        }

    def options_of_method(self) -> dict[str, Any]:
        """The method's own options; label smoothing is one that every method has."""
        return {"label_smoothing": self.label_smoothing, **self.method_options}

    def trainer_arguments(self) -> dict[str, Any]:
        """The options that are fields of `MixupArguments`, under the names they have there."""
        return {
            declared.trainer: getattr(self, name) for name, declared in OPTIONS.items() if declared.trainer
        }

    def that_change_the_result(self) -> dict[str, Any]:
        """The options that change the result by their value, but for those at their defaults."""
        values = {name: getattr(self, name) for name, found in OPTIONS.items() if found.affects == "result"}
        values["trainer"] = {name: value for name, value in self.trainer.items() if name not in REPORTING}
        return {name: value for name, value in values.items() if value != DEFAULTS[name]}

    def as_dict(self) -> dict[str, Any]:
        """Plain values for `config.yaml`: all that is given or has a default, and means something here."""
        values = {
            name: getattr(self, name)
            for name, declared in OPTIONS.items()
            if declared.saved and (self.teacher or name not in TAUGHT)
        }
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
            if value is not None
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, trust_remote_code: bool = False) -> TrainConfig:
        """`values` may come from the file of a run that somebody else has made: trust is not read from it."""
        named = {FORMERLY.get(name, name): value for name, value in values.items()}
        check_known(named, OPTIONS)
        return cls(**{**named, "trust_remote_code": trust_remote_code})

    def differences(self, other: TrainConfig) -> list[str]:
        """Options that differ, but for those that change nothing in a finished run."""
        ours, theirs = self.as_dict(), other.as_dict()
        return [
            name
            for name, declared in OPTIONS.items()
            if declared.affects != "nothing" and ours.get(name) != theirs.get(name)
        ]


OPTIONS = options_of(TrainConfig)
DEFAULTS: dict[str, Any] = {name: declared.default for name, declared in OPTIONS.items()}
FORMERLY = {declared.formerly: name for name, declared in OPTIONS.items() if declared.formerly}
# Mean nothing without a teacher.
TAUGHT = ("teacher", *(name for name, declared in OPTIONS.items() if declared.needs == "teacher"))
