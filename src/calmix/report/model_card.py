"""`model/README.md`: the model card, in the form that the Hugging Face Hub reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from calmix.io.run_directory import RunDirectory, replacing
from calmix.models.built_in import BUILT_IN
from calmix.report.label_card import APPLIED, label_parts
from calmix.report.learning import learning_quote
from calmix.report.prior_correction import correction_sentence
from calmix.report.tables import IN_SAMPLE_NOTE, escape_markdown, is_in_sample, metrics_table, scaling_words
from calmix.training.configuration import OPTIONS

# task -> (the Hub's name of it, its name for people, the class that loads the model)
TASKS = {
    "single": ("text-classification", "Text Classification", "AutoModelForSequenceClassification"),
    "pair": ("text-classification", "Text Classification", "AutoModelForSequenceClassification"),
    "choice": ("multiple-choice", "Multiple Choice", "AutoModelForMultipleChoice"),
    "image": ("image-classification", "Image Classification", "AutoModelForImageClassification"),
}
INPUTS = {
    "single": 'inputs = tokenizer(["a text"], truncation=True, padding=True, return_tensors="pt")',
    "pair": 'inputs = tokenizer(["text"], ["its pair"], truncation=True, padding=True, return_tensors="pt")',
    "choice": (
        'choices = ["first choice", "second choice"]\n'
        'inputs = tokenizer(["the text"] * len(choices), choices, truncation=True, padding=True, '
        'return_tensors="pt")\n'
        "inputs = {name: value.unsqueeze(0) for name, value in inputs.items()}  # [rows, choices, tokens]"
    ),
    "image": 'inputs = processor(Image.open("image.png").convert("RGB"), return_tensors="pt")',
}

SOFTMAX = ("    probabilities = model(**inputs).logits.softmax(-1)  # calibrated",)
CARD_METRICS = (
    ("accuracy", "Accuracy"),
    ("nll", "Negative log-likelihood"),
    ("brier", "Brier score"),
    ("ece", "Expected calibration error"),
    ("aurc", "Area under the risk-coverage curve"),
)


LABEL_METRICS = (
    ("f1", "Macro F1"),
    ("average_precision", "Macro average precision"),
    ("subset_accuracy", "Subset accuracy"),
    ("nll", "Log loss, mean over labels"),
    ("brier", "Brier score, mean over labels"),
    ("ece", "Expected calibration error, mean over labels"),
)


def write_model_card(
    run: RunDirectory, *, citation: str | None = None, metrics: Mapping[str, Any] | None = None
) -> Path:
    """Write the model card of a run.

    `citation` is that of the method, looked up by its name if left out. `metrics`: the content of
    `metrics.json`, for a caller that writes that file last.
    """
    metrics = run.metrics() if metrics is None else metrics
    fitted = run.calibration() if run.calibration_file.is_file() else {}
    front = yaml.safe_dump(
        front_matter(run.path.resolve().name, metrics), sort_keys=False, allow_unicode=True
    )
    if metrics.get("multi_label"):
        about, found, fit, bounds = label_parts(metrics, fitted)
    else:
        about, found = _what_it_is(metrics), _results(metrics)
        fit, bounds = _calibration(metrics, fitted), _limits(metrics)
    parts = [
        f"---\n{front}---",
        f"# {escape_markdown(run.path.resolve().name)}",
        *filter(None, [learning_quote(metrics)]),
        about,
        "## Use\n\n" + _use(metrics),
        "## Labels\n\n" + _labels(metrics),
        "## Data\n\n" + _data(metrics),
        "## Results\n\n" + found,
        "## Calibration\n\n" + fit,
        "## Limits\n\n" + bounds,
        "## Training\n\n" + _training(run.config(), metrics),
    ]
    citation = method_citation(str(metrics["method"])) if citation is None else citation
    if citation:
        parts.append("## Citation\n\n" + escape_markdown(citation))
    with replacing(run.model_card_file) as fresh:
        fresh.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return run.model_card_file


def method_citation(name: str) -> str:
    """Whom to cite for a method; nobody for one that is not registered here."""
    from calmix.mixing.method import method_classes

    found = method_classes().get(name)
    return found.citation if found is not None else ""


def front_matter(name: str, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The YAML block of the Hub, with the calibrated results of every split as its model-index."""
    tag, task_name, _ = TASKS[metrics["task"]]
    front: dict[str, Any] = {
        "library_name": "transformers",
        "pipeline_tag": tag,
        "tags": ["calmix", "calibration", tag, str(metrics["method"])],
        "metrics": [key for key, _ in (LABEL_METRICS if metrics.get("multi_label") else CARD_METRICS)],
    }
    if is_hub_model(str(metrics["model"])):
        front["base_model"] = str(metrics["model"])
    front["model-index"] = [
        {
            "name": name,
            "results": [
                {
                    "task": {"type": tag, "name": task_name},
                    # The Hub wants a type: it is the name of a dataset there, which a file has not.
                    "dataset": {"name": split, "type": "custom", "split": split},
                    "metrics": [
                        {"type": key, "name": f"{title}, calibrated", "value": value}
                        for key, title, value in _measured(stages["calibrated"])
                        if value is not None
                    ],
                }
                for split, stages in metrics["splits"].items()
                if not is_in_sample(stages, "calibrated")
            ],
        }
    ]
    # The Hub refuses an index without results.
    if not front["model-index"][0]["results"]:
        del front["model-index"]
    return front


def _measured(values: Mapping[str, Any]) -> list[tuple[str, str, float | None]]:
    """The metrics of a split for the Hub: key, title, value."""
    if values.get("multi_label"):
        return [(key, title, values["macro"].get(key, values.get(key))) for key, title in LABEL_METRICS]
    return [(key, title, values[key]) for key, title in CARD_METRICS]


def is_hub_model(model: str) -> bool:
    """Whether a model name can be one of the Hub: `owner/name`, and no directory of this machine.

    >>> [is_hub_model(name) for name in ("google/electra-small-discriminator", "/models/bert", "default")]
    [True, False, False]
    """
    part = r"[A-Za-z0-9][\w.-]*"
    return re.fullmatch(f"{part}/{part}", model) is not None and not Path(model).exists()


def _what_it_is(metrics: Mapping[str, Any]) -> str:
    model = str(metrics["model"])
    source = escape_markdown(model if is_hub_model(model) else Path(model).name)
    kind = "multiple-choice model" if metrics["task"] == "choice" else "classifier"
    unit = "choices" if metrics["task"] == "choice" else "classes"
    origin = "trained from random weights as" if model in BUILT_IN else "fine-tuned from"
    return (
        f"A {kind} with {len(metrics['label_names'])} {unit}, {origin} {source} with the method "
        f"`{metrics['method']}` of calmix (seed {metrics['seed']}).{_teachers(metrics)} Its confidence is "
        f"calibrated: the fitted {_fitted_words(metrics)} part of the weights, so the plain softmax of its "
        "logits is the calibrated probability. Do not apply a temperature again."
    )


def _fitted_words(metrics: Mapping[str, Any]) -> str:
    return "temperature is" if "temperature" in metrics else f"parameters of {scaling_words(metrics)} are"


def _teachers(metrics: Mapping[str, Any]) -> str:
    taught = metrics.get("distillation")
    if not taught:
        return ""
    names = ", ".join(escape_markdown(Path(str(teacher["name"])).name) for teacher in taught["teachers"])
    return (
        f" It was distilled from {names} (temperature τ = {taught['distill_temperature']:g}, "
        f"weight of the labels α = {taught['label_weight']:g})."
    )


def _use(metrics: Mapping[str, Any]) -> str:
    loader = TASKS[metrics["task"]][2]
    is_image = metrics["task"] == "image"
    reader, name = ("AutoImageProcessor", "processor") if is_image else ("AutoTokenizer", "tokenizer")
    # The code of calmix's own networks lies beside the weights, and transformers asks before it runs it.
    trust = ", trust_remote_code=True" if metrics["model"] in BUILT_IN else ""
    lines = [
        "```python",
        "import torch",
        *(["from PIL import Image"] if is_image else []),
        f"from transformers import {', '.join(sorted([reader, loader]))}",
        "",
        'directory = "path/to/this/directory"',
        f"{name} = {reader}.from_pretrained(directory)",
        f"model = {loader}.from_pretrained(directory{trust}).eval()",
        INPUTS[metrics["task"]],
        "with torch.no_grad():",
        *(APPLIED if metrics.get("multi_label") else SOFTMAX),
        "```",
    ]
    text = "\n".join(lines)
    if trust:
        text += (
            "\n\nThe network is calmix's own: its code is in this directory, hence `trust_remote_code`. "
            "After `calmix.register_networks()` it loads without."
        )
    if metrics["task"] == "single" and not metrics.get("multi_label"):
        text += '\n\n`pipeline("text-classification", model=directory)` gives the same calibrated scores.'
    return text


def _labels(metrics: Mapping[str, Any]) -> str:
    return "\n".join(
        f"- {place}: {escape_markdown(name)}" for place, name in enumerate(metrics["label_names"])
    )


def _data(metrics: Mapping[str, Any]) -> str:
    sizes = metrics.get("sizes") or {
        split: stages["calibrated"]["n"] for split, stages in metrics["splits"].items()
    }
    lines = [f"- {escape_markdown(split)}: {count:,} rows" for split, count in sizes.items()]
    findings = [
        f"- {escape_markdown(str(check['split']))}: {escape_markdown(str(check['message']))}"
        for check in metrics.get("data_checks", [])
    ]
    if findings:
        lines += ["", "Found in the data before training:", "", *findings]
    return "\n".join(lines)


def _results(metrics: Mapping[str, Any]) -> str:
    return (
        metrics_table(metrics).to_markdown()
        + f"\n\nECE over {metrics['ece_bins']} equal-width bins ({metrics['ece_edges']}-closed) of the "
        "predicted class's confidence. The noise floor is the ECE of a perfectly calibrated model at this "
        "sample size."
    )


def _calibration(metrics: Mapping[str, Any], fitted: Mapping[str, Any]) -> str:
    where = fitted.get("fitted_on", "validation")
    rows = metrics["splits"].get(where, {}).get("calibrated", {}).get("n")
    size = f" ({rows:,} rows)" if rows else ""
    if "temperature" not in metrics:
        text = (
            f"Calibrated by {scaling_words(metrics)}, fitted on {escape_markdown(str(where))}{size} and "
            "folded into the last linear layer. Predicted classes may differ from those before."
        )
    else:
        text = (
            f"Temperature T = {metrics['temperature']:.4f}, the minimiser of the negative log-likelihood on "
            f"{escape_markdown(str(where))}{size}, folded into the last linear layer: the logits of this "
            "model are those of training divided by T. Predictions and accuracy are not changed by it."
        )
    if "perturbed" in metrics:
        text += (
            "\n\nA second checkpoint of the run, `perturbed/model`, has the same weights at a temperature "
            "that was fitted on perturbed validation rows, for data of an unknown domain."
        )
    if "prior_correction" in metrics:
        text += f"\n\n{escape_markdown(correction_sentence(metrics))}"
    if fitted.get("at_bound"):
        text += (
            f" The search ended at its {fitted['at_bound']} bound: treat the calibration with caution and "
            "refit it on more rows."
        )
    return text


def _limits(metrics: Mapping[str, Any]) -> str:
    unseen = {
        split: stages["calibrated"]
        for split, stages in metrics["splits"].items()
        if not is_in_sample(stages, "calibrated")
    }
    lines = [
        f"- {escape_markdown(split)}: accuracy {100 * values['accuracy']:.1f} %, mean error of the stated "
        f"confidence (ECE) {100 * values['ece']:.2f} %"
        for split, values in unseen.items()
    ]
    if len(unseen) < len(metrics["splits"]):
        lines.append(f"- Calibrated numbers of the validation rows are {escape_markdown(IN_SAMPLE_NOTE)}.")
    lines.append("- On other data, accuracy and calibration are unknown: measure them first.")
    return "\n".join(lines)


def _training(config: Mapping[str, Any], metrics: Mapping[str, Any]) -> str:
    # Files and places of the machine that trained it say nothing about the model.
    settings = {
        name: config[name]
        for name, option in OPTIONS.items()
        if not option.private and config.get(name) is not None
    }
    shown = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True).rstrip()
    return f"Trained on {metrics['device']} in {metrics['seconds']:.0f} s.\n\n```yaml\n{shown}\n```"
