"""The options that every verb which trains has: data, training, and how the run is kept and measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from calmix.cli.options import config_tables, parse_assignments
from calmix.mixing.catalogue import method_cards
from calmix.training.model_settings import check_rate_suits, settings_for, trainer_settings_for

# The groups under which `--help` lists the options. The first is typer's own, which it shows first: what
# most people give.
COMMON, DATA, TRAINING, OUTPUT = "Options", "Data", "Training", "Run"
METHOD_HELP = (
    "plain, aum-saliency, cls-mixup, erl, features-only, focal, informed-mixup, input-mixup, "
    "kernel-warping, manifold-mixup, on-off-manifold, rankmixup, regmixup or tdmixup: see 'calmix methods'."
)


def complete_method() -> list[str]:
    """For the shell."""
    return list(method_cards())


Train = Annotated[
    str | None,
    typer.Option(help="Training file, directory of splits or hub dataset.", rich_help_panel=COMMON),
]
Validation = Annotated[
    str | None,
    typer.Option(help="Validation file; a tenth of training if left out.", rich_help_panel=COMMON),
]
Test = Annotated[
    list[str] | None,
    typer.Option(help="[NAME=]FILE, any number of times; the first is in-domain.", rich_help_panel=COMMON),
]
TextColumn = Annotated[str | None, typer.Option(help="Default: text.", rich_help_panel=DATA)]
PairColumn = Annotated[str | None, typer.Option(help="Default: text_pair.", rich_help_panel=DATA)]
ChoicesColumn = Annotated[str | None, typer.Option(help="Default: choices.", rich_help_panel=DATA)]
LabelColumn = Annotated[str | None, typer.Option(help="Default: label.", rich_help_panel=DATA)]
IdColumn = Annotated[str | None, typer.Option(help="Default: rows are numbered.", rich_help_panel=DATA)]

ImageColumn = Annotated[str | None, typer.Option(help="Default: image.", rich_help_panel=DATA)]

Model = Annotated[
    str,
    typer.Option(
        help="'default', a checkpoint, a hub name, or randomly initialised: text-cnn; for images "
        "vgg16, resnet18, resnet34, resnet50, resnet-small.",
        rich_help_panel=COMMON,
    ),
]
ModelOption = Annotated[
    list[str] | None,
    typer.Option(
        help="NAME=VALUE of a randomly initialised network, such as dropout=0.3.", rich_help_panel=TRAINING
    ),
]
Augment = Annotated[
    str | None,
    typer.Option(help="Of training images: crop,flip,rotation. Default: none.", rich_help_panel=TRAINING),
]
Optimizer = Annotated[
    str | None,
    typer.Option(
        help="adamw, sgd:momentum=0.9:weight_decay=5e-4 or adadelta:rho=0.95. Default: as suits the model.",
        rich_help_panel=TRAINING,
    ),
]
Schedule = Annotated[
    str | None,
    typer.Option(
        help="linear, constant or step:epochs=[60,120,160]:factor=0.5. Default: as suits the model.",
        rich_help_panel=TRAINING,
    ),
]
Alpha = Annotated[
    float | None, typer.Option(help="Mixing ratios are drawn from Beta(α, α).", rich_help_panel=TRAINING)
]
LabelSmoothing = Annotated[
    float, typer.Option(help="ε off the true class, ε/(C-1) to each other.", rich_help_panel=TRAINING)
]
MethodOption = Annotated[
    list[str] | None, typer.Option(help="NAME=VALUE, an option of the method.", rich_help_panel=TRAINING)
]
Epochs = Annotated[
    int | None,
    typer.Option(
        help="Passes over the training rows. Default: 3 to 20, more for fewer rows (text-cnn 25, images 30).",
        rich_help_panel=TRAINING,
    ),
]
BatchSize = Annotated[
    int, typer.Option(help="Rows per device (text-cnn 50, images 128).", rich_help_panel=TRAINING)
]
LearningRate = Annotated[
    float | None,
    typer.Option(
        help="Linear decay to 0. Default: as suits the model; 2e-4 for the embedded encoder, 3e-5 for a "
        "checkpoint of base size (text-cnn 1, images 0.1: see --schedule).",
        rich_help_panel=TRAINING,
    ),
]
MaxLength = Annotated[
    int, typer.Option(help="Longer texts are cut to this many tokens.", rich_help_panel=TRAINING)
]
TrainRows = Annotated[
    int | None,
    typer.Option(help="Train on a sample of this many rows, drawn by the seed.", rich_help_panel=DATA),
]
TrainRegion = Annotated[
    str,
    typer.Option(
        help="Train on 'easy', 'ambiguous', 'hard' or 'easy+ambiguous' rows of a plain run's data map.",
        rich_help_panel=DATA,
    ),
]
AumFilter = Annotated[
    bool, typer.Option(help="Leave out rows of the region with doubtful labels.", rich_help_panel=DATA)
]
AumPercentile = Annotated[
    float, typer.Option(help="Share of wrong labels a row must outrank to be kept.", rich_help_panel=DATA)
]
StudentLayers = Annotated[
    int | None,
    typer.Option(help="Cut the checkpoint to this many layers, evenly spread.", rich_help_panel=TRAINING),
]
FreezeEmbeddings = Annotated[
    bool, typer.Option(help="Do not train the word embeddings: faster.", rich_help_panel=TRAINING)
]
Dynamics = Annotated[
    str,
    typer.Option(help="Record rows during 'training', at 'epoch_end', or 'off'.", rich_help_panel=TRAINING),
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.", rich_help_panel=TRAINING)]
Threads = Annotated[
    int | None, typer.Option(help="CPU threads; all cores if left out.", rich_help_panel=TRAINING)
]

CheckpointSteps = Annotated[
    int | None, typer.Option(help="Steps between checkpoints.", rich_help_panel=OUTPUT)
]
CheckpointMinutes = Annotated[
    float, typer.Option(help="Minutes between checkpoints.", rich_help_panel=OUTPUT)
]
Bins = Annotated[int, typer.Option(help="Bins of the calibration errors.", rich_help_panel=OUTPUT)]
Closed = Annotated[str, typer.Option(help="Bins closed on the 'right' or 'left'.", rich_help_panel=OUTPUT)]


def training_values(
    context: typer.Context, *, without: set[str], network: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The values of `TrainConfig` that a command line and its configuration file give.

    `without`: parameters of the verb that are none of training's. `network`: what decides the network where
    nothing is said about it; settings of training that suit a model are those of this one.
    """
    network = network or {}
    own = without | {"config", "as_json", "alpha", "method_option", "model_option"}
    values = {name: value for name, value in context.params.items() if name not in own}
    values |= {name: network[name] for name in network if name in values and values[name] is None}
    tables = config_tables(context)
    model = str(values["model"])
    for name, value in settings_for(model).items():
        source = context.get_parameter_source(name)
        if source is not None and source.name == "DEFAULT":  # nobody said anything else
            if name == "learning_rate":
                check_rate_suits(model, values["optimizer"])
            values[name] = value
    trainer = {**trainer_settings_for(model), **tables.get("trainer", {})}
    model_options = {
        **network.get("model_options", {}),
        **tables.get("model_options", {}),
        **parse_assignments(context.params["model_option"], "--model-option"),
    }
    options = {
        **tables.get("method_options", {}),
        **parse_assignments(context.params["method_option"], "--method-option"),
    }
    if context.params["alpha"] is not None:
        options["alpha"] = context.params["alpha"]
    return values | {"method_options": options, "trainer": trainer, "model_options": model_options}
