"""One sentence with its evidence: which method to use, and what speaks for it.

The choice is made on validation alone, by NLL after temperature scaling: the challenger (the best arm that
is not `plain`) is chosen if its paired difference to `plain` + temperature is below 0 beyond doubt (95 %
interval, two seeds or more); else `plain` + temperature, the simpler, is. What the test sets say about the
two is reported, and chooses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from calmix.experiments.bootstrap import Difference
from calmix.experiments.differences import contestants
from calmix.experiments.grid import Arm
from calmix.experiments.results import Results

IN_DOMAIN = "test"
CALIBRATED = "calibrated"


@dataclass(frozen=True)
class Evidence:
    """The challenger minus the baseline on one split, both after temperature scaling."""

    split: str
    nll: Difference
    accuracy: Difference

    @property
    def place(self) -> str:
        return f"{self.domain} (`{self.split}`)" if self.split != "validation" else self.domain

    @property
    def domain(self) -> str:
        """The first test set is in-domain unless it has a name of its own."""
        if self.split == "validation":
            return "on validation"
        return "in domain" if self.split == IN_DOMAIN else "out of domain"

    @property
    def lowers(self) -> bool:
        return self.nll.high < 0

    @property
    def raises(self) -> bool:
        return self.nll.low > 0


@dataclass(frozen=True)
class Recommendation:
    verdict: str
    """Of the challenger's NLL: better, trade_off (better, but less accurate), mixed (better here, worse
    there), worse, equal, cannot_tell or nothing_to_compare."""
    sentence: str
    """What the test sets say about the challenger."""
    choice: str
    """What validation chooses, and why."""
    chosen: str | None
    seed: int | None
    run: str | None
    """The chosen arm's run with the lowest validation NLL."""
    baseline: str | None = None
    challenger: str | None = None
    alternative: str | None = None
    """The one of the two that was not chosen, and its best run."""
    alternative_run: str | None = None
    evidence: tuple[Evidence, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def recommend(results: Results, summary: Sequence[Mapping[str, Any]]) -> Recommendation:
    """The recommendation for the results of a comparison."""
    baseline, challenger = contestants(results.arms, list(map(dict, summary)))
    if baseline is None or challenger is None:
        only = baseline or challenger
        if only is None:
            return Recommendation("nothing_to_compare", "No run has finished.", "", None, None, None)
        seed, run = best_run(results, only)
        missing = "plain has not finished" if baseline is None else "nothing was compared with it"
        return Recommendation(
            "nothing_to_compare",
            f"`{only.name}` alone has results: {missing}.",
            f"Chosen: `{only.name}`, seed {seed}, for want of another.",
            only.name,
            seed,
            run,
        )
    evidence = [find_evidence(results, challenger, baseline, split) for split in results.splits()]
    validation = next((e for e in evidence if e is not None and e.split == "validation"), None)
    tests = [e for e in evidence if e is not None and e.split != "validation"]
    shown = tests or ([validation] if validation else [])
    wins = is_chosen(validation)
    chosen, alternative = (challenger, baseline) if wins else (baseline, challenger)
    seed, run = best_run(results, chosen)
    return Recommendation(
        verdict=verdict_of(shown),
        sentence=sentence(challenger, baseline, shown),
        choice=choice(challenger, baseline, validation, seed) + advice(challenger, baseline, shown, wins),
        chosen=chosen.name,
        seed=seed,
        run=run,
        baseline=baseline.name,
        challenger=challenger.name,
        alternative=alternative.name,
        alternative_run=best_run(results, alternative)[1],
        evidence=tuple(e for e in evidence if e is not None),
    )


def find_evidence(results: Results, challenger: Arm, baseline: Arm, split: str) -> Evidence | None:
    found = {
        d["metric"]: Difference(d["difference"], d["low"], d["high"], d["seeds"])
        for d in results.differences
        if (d["split"], d["arm"], d["reference"]) == (split, challenger.name, baseline.name)
        and d["stage"] == d["reference_stage"] == CALIBRATED
    }
    return Evidence(split, found["nll"], found["accuracy"]) if found else None


def best_run(results: Results, arm: Arm) -> tuple[int, str]:
    """The seed and the run with the lowest validation NLL after temperature scaling."""
    runs = results.select(split="validation", stage=CALIBRATED, arm=arm.name)
    best = min(runs, key=lambda record: record["nll"])
    return best["seed"], best["run"]


def verdict_of(evidence: Sequence[Evidence]) -> str:
    if not evidence or min(e.nll.seeds for e in evidence) < 2:
        return "cannot_tell"
    lowers, raises = any(e.lowers for e in evidence), any(e.raises for e in evidence)
    if lowers and raises:
        return "mixed"
    if lowers:
        return "trade_off" if any(e.accuracy.high < 0 for e in evidence) else "better"
    return "worse" if raises else "equal"


def sentence(challenger: Arm, baseline: Arm, evidence: Sequence[Evidence]) -> str:
    """What is known about the challenger, against the baseline with its temperature."""
    ours, theirs = f"`{challenger.name}`", label(baseline)
    verdict = verdict_of(evidence)
    if not evidence:
        return f"{ours} and {theirs} have no seed in common: nothing can be said."
    changes = listing([f"by {_signed(e.nll)} {e.place}" for e in evidence])
    if verdict == "cannot_tell":
        return (
            f"One seed cannot tell a method from luck: {ours} changes NLL {changes} against {theirs}, the "
            "intervals over rows alone; compare at least three seeds."
        )
    accuracy = accuracy_clause(evidence)
    equal = [f"{e.domain} (`{e.split}`, {_signed(e.nll)})" for e in evidence if not e.lowers and not e.raises]
    if verdict == "equal":
        return (
            f"{_capital(theirs)} is as good as any: {ours}, the best of the others on validation, changes "
            f"NLL {changes}, {accuracy}."
        )
    lowers = listing([f"{e.place} by {_amount(e.nll, -1)}" for e in evidence if e.lowers])
    raises = listing([f"{e.place} by {_amount(e.nll, 1)}" for e in evidence if e.raises])
    if verdict == "worse":
        text = (
            f"{_capital(theirs)} is best: {ours}, the best of the others on validation, raises NLL {raises}, "
            f"{accuracy}"
        )
        return text + (f"; {listing(equal)} it is as good." if equal else ".")
    text = f"{ours} lowers NLL {lowers} against {theirs}"
    if raises:
        text += f", but raises it {raises}"
    text += f", {accuracy}"
    return text + (f"; {listing(equal)}, {theirs} is as good." if equal else ".")


def accuracy_clause(evidence: Sequence[Evidence]) -> str:
    """Whether accuracy changed, in points: where it did, by how much; else within what."""
    costs = [f"{_amount(e.accuracy, -1, 100, 1)} points {e.place}" for e in evidence if e.accuracy.high < 0]
    gains = [f"{_amount(e.accuracy, 1, 100, 1)} points {e.place}" for e in evidence if e.accuracy.low > 0]
    if not costs and not gains:
        widest = max(max(abs(e.accuracy.low), abs(e.accuracy.high)) for e in evidence)
        return f"accuracy unchanged within ±{math.ceil(1000 * widest - 1e-9) / 10:.1f} points"
    said = [f"at a cost in accuracy of {listing(costs)}"] if costs else []
    said += [f"with a gain in accuracy of {listing(gains)}"] if gains else []
    return " and ".join(said)


def choice(challenger: Arm, baseline: Arm, validation: Evidence | None, seed: int) -> str:
    """Which of the two validation chooses, and why."""
    start = "Chosen on validation NLL after temperature scaling alone:"
    if validation is None:
        return f"{start} {label(baseline)}, seed {seed}, for want of a common seed."
    if is_chosen(validation):
        lower = f"which is lower there by {_amount(validation.nll, -1)} than {label(baseline)}"
        return f"{start} `{challenger.name}`, seed {seed}, {lower}."
    found = f"`{challenger.name}` differs from it there by {_signed(validation.nll)}"
    other = f"{label(baseline)}, seed {seed}; {found}"
    if validation.raises:
        return f"{start} {other}."
    seeds = "one seed decides nothing" if validation.nll.seeds < 2 else "this cannot be told from nothing"
    return f"{start} {other}: {seeds}, and the simpler wins."


def is_chosen(validation: Evidence | None) -> bool:
    """Whether validation chooses the challenger."""
    return validation is not None and validation.lowers and validation.nll.seeds > 1


def advice(challenger: Arm, baseline: Arm, evidence: Sequence[Evidence], wins: bool) -> str:
    """When to take the other one all the same: a reader knows what data are to come, validation does not."""
    verdict = verdict_of(evidence)
    if wins and any(e.accuracy.high < 0 for e in evidence):
        return f" Where accuracy counts for more, take {label(baseline)}."
    if not wins and verdict in ("better", "mixed", "trade_off"):
        places = listing([f"`{e.split}`" for e in evidence if e.lowers])
        return f" Where the data to come look like {places}, take `{challenger.name}`."
    return ""


def label(baseline: Arm) -> str:
    return f"{baseline.name if baseline.name == 'plain' else f'`{baseline.name}`'} + temperature"


def listing(parts: Sequence[str]) -> str:
    """
    >>> listing(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def _amount(difference: Difference, sign: int, scale: float = 1, decimals: int = 4) -> str:
    """The size of a change in the direction of `sign`, with its interval."""
    low, high = sorted((sign * scale * difference.low, sign * scale * difference.high))
    return f"{sign * scale * difference.difference:.{decimals}f} [{low:.{decimals}f}, {high:.{decimals}f}]"


def _signed(difference: Difference) -> str:
    shown = [f"{value:+.4f}" for value in (difference.difference, difference.low, difference.high)]
    shown = [text if text.strip("+-0.") else "0.0000" for text in shown]
    return f"{shown[0]} [{shown[1]}, {shown[2]}]"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
