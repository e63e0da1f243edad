"""What a preset costs at a scale, in minutes of one core.

An estimate, from runs that were timed on one core; a test holds it against the seconds that the outcomes in
`results/reproduction` recorded:

    minutes = Σ over arms and seeds of  (rows × epochs × share × factor + tested rows / 4) × minutes per 1,000

`share` is the part of the rows that an arm trains on, `factor` what a step of its method costs against plain
training. A forward pass without a backward pass is counted as a quarter. Guided methods find their plain run
in the store, if it is an arm too, else it is counted with them.
"""

from __future__ import annotations

from calmix.reproduction.blocks import Block, blocks_of
from calmix.reproduction.datasets import find_dataset
from calmix.reproduction.preset import SMALL, Preset, PresetArm

# Minutes per 1,000 rows and epoch: network, kind of row. Of images between the seconds of
# results/mixup_uncertainty (0.14; 500 rows, 60 epochs) and of results/reproduction (0.065); of the text CNN
# those of results/mixup_uncertainty (text_epochs: 4,000 rows, 25 epochs).
RATES = {
    ("default", "single"): 0.7, ("default", "pair"): 1.0, ("default", "choice"): 4.0,
    ("text-cnn", "single"): 0.015, ("resnet-small", "image"): 0.09,
}  # fmt: skip
# A run whose first 4 of 6 layers are frozen and cached, against one without: the 60 runs of
# aum-saliency/table1 on SNLI and QQP took 120 minutes. A step alone gains more
# (benchmarks/results/training.json); the rest is the one pass through the frozen layers.
FROZEN = 0.27
GUIDED = ("aum-saliency", "tdmixup", "informed-mixup")
FACTORS = {"on-off-manifold": 5.3}
SHARES = {"easy": 1 / 3, "ambiguous": 1 / 3, "hard": 1 / 3, "easy+ambiguous": 2 / 3}
# Where neither preset nor data set says more.
DEFAULT_ROWS, DEFAULT_TESTS, DEFAULT_VALIDATION = 2000, 2000, 1000


def minutes(preset: Preset) -> float | None:
    """Minutes of one core at `small`; None where the preset has no such scale. `full` was never timed."""
    if preset.analysis:
        return 0.0
    if SMALL not in preset.scales:
        return None
    return sum(run_minutes(preset).values())


def run_minutes(preset: Preset) -> dict[str, float]:
    """The minutes of every arm at `small`, all seeds together, by what the arm is made of: tables that share
    an arm share its runs."""
    found: dict[str, float] = {}
    if preset.analysis or SMALL not in preset.scales:
        return found
    for block in blocks_of(preset, preset.scales[SMALL]):
        settings = sorted(block.settings().items(), key=str)
        where = f"{block.model.model} {block.task.dataset} {block.task.outside} {settings}"
        for arm in block.arms:
            found[f"{where} {block.specification(arm)} {block.scale.seeds}"] = arm_minutes(block, arm)
    return found


def arm_minutes(block: Block, arm: PresetArm) -> float:
    """All seeds of an arm."""
    settings = block.settings()
    kind = "single" if "text_pair" in block.task.without else find_dataset(block.task.dataset).kind
    rate = RATES.get((block.model.model, kind), RATES["default", "single"])
    rows, epochs = settings.get("train_rows") or DEFAULT_ROWS, settings.get("epochs") or 3
    tests = (block.scale.test_rows or DEFAULT_TESTS) * len(block.task.columns)
    evaluations = -(-epochs // (settings.get("evaluate_every") or 1))
    validation = (block.scale.validation_rows or DEFAULT_VALIDATION) * evaluations
    has_plain = any(one.method == "plain" and not one.options for one in block.arms)
    share = SHARES.get(str(arm.options.get("train_region", "")), 1.0)
    trained = rows * epochs * share * FACTORS.get(arm.method, 1.0)
    if arm.options.get("aum_filter", arm.method == "tdmixup"):
        trained += rows * epochs / 3  # the threshold pass, on the easy or ambiguous third
    if arm.method in GUIDED and not has_plain:
        trained += rows * epochs / len(block.arms)
    if arm.is_taught:
        trained += rows / 4
    frozen = FROZEN if settings.get("freeze_layers") else 1.0
    return len(block.scale.seeds) * (trained + (tests + validation) / 4) / 1000 * rate * frozen
