"""Recalibrate a trained model for the data you deploy it on, and say which rows to label for that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calmix.data.objects import is_place
from calmix.user_error import UserError, argument, check_least
from calmix.workflows.calibrate import REPORT, CalibrationResult
from calmix.workflows.data_arguments import GivenData
from calmix.workflows.options import check_max_length, output_directory
from calmix.workflows.result import Result
from calmix.workflows.run import model_directory

if TYPE_CHECKING:
    from calmix.inference.calibrated_directory import Calibrated


class AdaptationResult(CalibrationResult):
    """A calibrator for another domain, what it changed on the rows of every set, and where everything is."""

    @property
    def kept_source(self) -> bool:
        """Whether the rows were too few to beat the calibration that the model had."""
        return bool((self.content.get("adaptation") or {}).get("kept_source", False))

    @property
    def nll_gain(self) -> tuple[float, float, float] | None:
        """The change of the NLL of new rows by cross-validation and its 95 % interval; negative is better."""
        found = self.content.get("adaptation")
        return None if found is None else (found["nll_gain"], *found["nll_gain_ci"])

    def lines(self) -> list[str]:
        found = self.content.get("adaptation")
        if found is None:
            return super().lines()
        weighted = found["weighted"]
        said = [found["sentence"]]
        if weighted is not None:
            said.append(
                f"by the design weights: NLL {weighted['before']['nll']:.4f} before, "
                f"{weighted['after']['nll']:.4f} after (cross-validated)"
            )
        return [*said, *super().lines()]


@dataclass(frozen=True, eq=False, repr=False)
class LabelRequestResult(Result):
    """Which rows to label: a file with an empty label column and the weights of the design."""

    path: Path
    content: Mapping[str, Any]
    """What `calmix adapt --suggest --json` prints."""

    def __fspath__(self) -> str:
        return str(self.path)

    def lines(self) -> list[str]:
        found = self.content
        by = "at random" if found["design"] == "random" else "stratified by confidence"
        return [
            f"{found['rows']} of {found['of']:,} rows, drawn {by}: {found['output']}",
            "fill in the label column, keep design_weight as it is, then: "
            f"calmix adapt RUN --labelled {found['output']} --output DIRECTORY",
        ]


def adapt(
    source: Any,
    *,
    labelled: Any = None,
    unlabelled: Any = None,
    method: str | None = None,
    perturbed: bool = False,
    output: str | Path | None = None,
    seed: int = 0,
    text_column: str | None = None,
    pair_column: str | None = None,
    choices_column: str | None = None,
    label_column: str | None = None,
    image_column: str | None = None,
    max_length: int | None = None,
    trust_remote_code: bool = False,
) -> AdaptationResult:
    """Recalibrate a trained model for the data you deploy it on.

        calmix.adapt(run, labelled=fifty_rows, output="adapted").nll_gain
        calmix.adapt(run, perturbed=True, output="robust")

    source: a `Run`, a run or checkpoint directory. labelled: 20 to a few hundred labelled rows of the domain,
    in any form that `calmix.train` takes; `suggest_labels` says which. perturbed: no data of the domain, but
    damaged validation rows of the run. unlabelled: rows without labels, for a `method` that is named:
    pseudocal, transcal, em-label-shift, lascal or density. What is written can be given to `predict` and
    `evaluate`.
    """
    place = output_directory(output)
    asked = (labelled is not None) + (unlabelled is not None) + perturbed
    if asked != 1:
        raise UserError(
            "nothing to adapt to" if not asked else "several kinds of data to adapt to",
            remedy=f"give one of {argument('labelled', 'FILE')}, {argument('unlabelled', 'FILE')} and "
            f"{argument('perturbed')}",
        )
    if method is not None and unlabelled is None:
        raise UserError(f"{argument('method')} needs {argument('unlabelled')}", remedy="leave it out")
    check_least("seed", seed, 0)
    check_max_length(max_length)
    model = model_to_adapt(source)
    names = {
        "text_column": text_column,
        "pair_column": pair_column,
        "choices_column": choices_column,
        "label_column": label_column,
        "image_column": image_column,
    }
    given = GivenData.with_columns(names)
    if labelled is not None:
        labelled = str(labelled) if is_place(labelled) else given.source(labelled, "labelled")

    from calmix.report.adapted_card import write_adapted_card
    from calmix.report.calibration_report import write_calibration_report

    def describe(directory: Path, found: Calibrated) -> None:
        write_adapted_card(directory, model, found.result)
        write_calibration_report(found.result, found.held_out, directory / REPORT)

    found: Calibrated
    if labelled is not None:
        from calmix.inference.adaptation.labelled import adapt_labelled

        found = adapt_labelled(
            model,
            labelled,
            place,
            seed=seed,
            describe=describe,
            max_length=max_length,
            trust_remote_code=trust_remote_code,
            **names,
        )
    elif unlabelled is not None:
        from calmix.inference.adaptation.unlabelled import adapt_unlabelled

        found = adapt_unlabelled(
            model,
            given.source(unlabelled, "unlabelled"),
            method,
            place,
            seed=seed,
            describe=describe,
            trust_remote_code=trust_remote_code,
            **{name.removesuffix("_column"): value for name, value in names.items()},
        )
    else:
        from calmix.inference.adaptation.perturbed import adapt_perturbed

        found = adapt_perturbed(
            model, place, seed=seed, describe=describe, trust_remote_code=trust_remote_code
        )
    return AdaptationResult(place, {**found.result, "report": str(place / REPORT)})


def model_to_adapt(source: Any) -> Path:
    """The run or checkpoint that a source means."""
    model = model_directory(source, "source")
    if not model.is_dir():
        raise UserError("no such run or checkpoint", file=model, remedy="check the path")

    from calmix.workflows.multi_label import is_multi_label_model

    if is_multi_label_model(model):
        raise UserError(
            "adapting is for rows of one label, and this model gives several",
            file=model,
            remedy="fit the scaling of every label on labelled rows with 'calmix calibrate'",
        )
    return model


def suggest_labels(
    source: Any,
    unlabelled: Any,
    count: int,
    *,
    output: str | Path,
    design: str = "confidence",
    seed: int = 0,
    text_column: str | None = None,
    pair_column: str | None = None,
    choices_column: str | None = None,
    label_column: str | None = None,
    image_column: str | None = None,
    trust_remote_code: bool = False,
) -> LabelRequestResult:
    """Draw the rows to label, with the weights that keep a fit and metrics on them unbiased.

        calmix.suggest_labels(run, "tickets.csv", 50, output="to_label.csv")

    design: `confidence` (stratified: more rows of low confidence) or `random`.
    """
    from calmix.io.writing import check_not_input, check_writable

    place = Path(output)
    check_writable(place)
    check_not_input(place, unlabelled if is_place(unlabelled) else None)
    names = {
        "text": text_column,
        "pair": pair_column,
        "choices": choices_column,
        "label": label_column,
        "image": image_column,
    }
    given = GivenData.with_columns({f"{kind}_column": name for kind, name in names.items()})
    check_least("seed", seed, 0)
    model = model_to_adapt(source)

    from calmix.inference.adaptation.label_request import suggest_rows

    found = suggest_rows(
        model,
        given.source(unlabelled, "unlabelled"),
        count,
        place,
        design=design,
        seed=seed,
        trust_remote_code=trust_remote_code,
        **names,
    )
    return LabelRequestResult(place, found)
