"""Advice, one of three: better, no worse within a margin, or cannot tell.

The best of the other arms on validation (lowest mean NLL after temperature scaling) challenges the best
`plain` + TS. Validation alone decides:

    better         its NLL is lower, and its accuracy is not: it is chosen
    trade_off      its NLL is lower, and so is its accuracy: `plain` is kept
    worse          its NLL is higher: `plain` is kept
    no_worse       neither, and it is better than `plain` by no more than the margin: `plain`, the simpler
    cannot_tell    neither, and the intervals are wider than the margin: `plain` for now, and how to tell

"Lower" and "higher" mean that the interval leaves out 0, at the level of Holm's step for the k arms that were
tested against `plain` (`significance`). What the test sets say is reported in the same words, and chooses
nothing; they are corrected in the same way, since an arm that was lucky in its seeds on validation is lucky
with the same networks on the test sets. ECE has no part in it.

Arms whose runs have not learned are left out; where `plain` has not, there is no advice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from calmix.calibration.uncertainty.multiplicity import holm_levels
from calmix.experiments.bootstrap import Difference
from calmix.experiments.contestants import contestants, unlearned_runs
from calmix.experiments.grid import Arm
from calmix.experiments.required_runs import Margin, Tested, rows_required, seeds_required
from calmix.experiments.results import CALIBRATED, VALIDATION, Results
from calmix.experiments.significance import index_runs, p_value, spread_of

IN_DOMAIN = "test"
# Of one seed nothing is known about the spread.
SEEDS_AFTER_ONE = 5
ANSWERS = {
    "better": "better",
    "trade_off": "lower NLL, but less accurate",
    "worse": "worse",
    "no_worse": "not better by more than the margin",
    "cannot_tell": "cannot tell",
}


@dataclass(frozen=True)
class Evidence:
    """The challenger minus the baseline on one split, both after temperature scaling; corrected intervals."""

    split: str
    rows: int
    accuracy: Difference
    nll: Difference
    answer: str
    seeds_required: int | None = None
    rows_required: tuple[int, int] | None = None
    """Seeds and rows, where seeds alone would not decide."""

    @property
    def place(self) -> str:
        """The first test set is in-domain unless it has a name of its own."""
        if self.split == VALIDATION:
            return "on validation"
        return f"{'in domain' if self.split == IN_DOMAIN else 'out of domain'} (`{self.split}`)"

    @property
    def effect(self) -> str:
        """Accuracy first."""
        return f"accuracy {_signed(self.accuracy, 100, 1)} points, NLL {_signed(self.nll, 1, 4)}"

    @property
    def line(self) -> str:
        return f"{self.place}, {self.rows:,} rows: {self.effect}: {ANSWERS[self.answer]}"


@dataclass(frozen=True)
class Recommendation:
    verdict: str
    """Of the challenger, see above; or not_learned, or nothing_to_compare."""
    sentence: str
    """What to do, in one sentence."""
    choice: str
    """How it was decided."""
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
    lines: tuple[str, ...] = ()
    """The evidence in words, a line for each split."""
    next_step: str = ""
    """What would tell, where the answer is that nothing can be told."""
    next_seeds: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def recommend(results: Results, summary: Sequence[Mapping[str, Any]]) -> Recommendation:
    """The recommendation for the results of a comparison, with the margin of its options."""
    margin = Margin.of(results.config)
    missing = unlearned_runs(results)
    learned = [arm for arm in results.arms if arm.name not in missing.arms]
    baseline, challenger = contestants(learned, list(map(dict, summary)))
    if missing.arms and (baseline is None or challenger is None):
        plain = baseline or contestants(results.arms, list(map(dict, summary)))[0]
        return _not_learned(results, missing.lines, missing.advice, plain, has_baseline=baseline is not None)
    if baseline is None or challenger is None:
        return _nothing_to_compare(results, baseline or challenger, has_plain=baseline is not None)
    tested = [arm for arm in learned if arm is not baseline and results.select(arm=arm.name)]
    rows = {record["split"]: record["n"] for record in summary}
    found = [
        find_evidence(results, tested, challenger, baseline, split, rows[split], margin)
        for split in results.splits()
    ]
    evidence = tuple(one for one in found if one is not None)
    decision = next((one for one in evidence if one.split == VALIDATION), None)
    verdict = decision.answer if decision is not None else "cannot_tell"
    chosen, other = (challenger, baseline) if verdict == "better" else (baseline, challenger)
    seed, run = best_run(results, chosen)
    next_step, next_seeds = _next_step(results, decision) if verdict == "cannot_tell" else ("", ())
    return Recommendation(
        verdict=verdict,
        sentence=sentence(challenger, baseline, decision, len(tested), margin),
        choice=choice(chosen, seed, len(tested)) + exceptions(challenger, baseline, evidence, verdict),
        chosen=chosen.name,
        seed=seed,
        run=run,
        baseline=baseline.name,
        challenger=challenger.name,
        alternative=other.name,
        alternative_run=best_run(results, other)[1],
        evidence=evidence,
        lines=tuple(one.line for one in evidence),
        next_step=next_step,
        next_seeds=next_seeds,
        notes=missing.lines + missing.notes,
    )


def find_evidence(
    results: Results,
    tested: Sequence[Arm],
    challenger: Arm,
    baseline: Arm,
    split: str,
    rows: int,
    margin: Margin,
) -> Evidence | None:
    """What a split says about the challenger, corrected for all arms tested against the baseline."""
    runs = index_runs(results)
    found = {
        (d["metric"], d["arm"]): spread_of(d, runs)
        for d in results.differences
        if (d["split"], d["reference"]) == (split, baseline.name)
        and d["stage"] == d["reference_stage"] == CALIBRATED
    }
    if ("nll", challenger.name) not in found:
        return None

    def test(metric: str) -> Tested:
        names = [arm.name for arm in tested]
        # A difference that an older comparison has not stored counts as the largest p: that is conservative.
        spreads = [found.get((metric, name)) for name in names]
        p_values = [1.0 if spread is None else p_value(spread) for spread in spreads]
        levels = holm_levels([1.0 if p is None else p for p in p_values])
        return Tested(found[metric, challenger.name], levels[names.index(challenger.name)])

    nll, accuracy = test("nll"), test("accuracy")
    nll_interval, unclipped = nll.spread.interval(nll.level), accuracy.spread.interval(accuracy.level)
    # Few seeds and many arms give limits beyond what two accuracies can differ by.
    accuracy_interval = replace(unclipped, low=max(unclipped.low, -1.0), high=min(unclipped.high, 1.0))
    answer = answer_of(nll_interval, accuracy_interval, margin)
    is_open = answer == "cannot_tell" and nll.spread.seeds > 1
    return Evidence(
        split=split,
        rows=rows,
        accuracy=accuracy_interval,
        nll=nll_interval,
        answer=answer,
        seeds_required=seeds_required(nll, accuracy, margin) if is_open else None,
        rows_required=rows_required(nll, accuracy, margin, rows) if is_open else None,
    )


def answer_of(nll: Difference, accuracy: Difference, margin: Margin) -> str:
    """One of the `ANSWERS`, from corrected intervals.

    >>> lower, higher = Difference(-0.05, -0.08, -0.02, 3), Difference(0.0, -0.005, 0.005, 3)
    >>> answer_of(lower, higher, Margin()), answer_of(higher, higher, Margin())
    ('better', 'no_worse')
    >>> answer_of(Difference(-0.05, -0.2, 0.1, 3), higher, Margin())
    'cannot_tell'
    """
    if nll.seeds < 2:
        return "cannot_tell"
    if nll.high < 0:
        return "trade_off" if accuracy.high < 0 else "better"
    if nll.low > 0:
        return "worse"
    is_small = -nll.low <= margin.nll and accuracy.high <= margin.accuracy
    return "no_worse" if is_small else "cannot_tell"


def best_run(results: Results, arm: Arm) -> tuple[int, str]:
    """The seed and the run with the lowest validation NLL after temperature scaling."""
    runs = results.select(split=VALIDATION, stage=CALIBRATED, arm=arm.name)
    best = min(runs, key=lambda record: record["nll"])
    return best["seed"], best["run"]


def sentence(challenger: Arm, baseline: Arm, decision: Evidence | None, arms: int, margin: Margin) -> str:
    """What to do, for a reader who reads nothing else."""
    ours, theirs = f"`{challenger.name}`", label(baseline)
    if decision is None:
        return f"Cannot tell: {ours} and {theirs} have no seed in common. Use {theirs}, the simpler, for now."
    best = ours if arms == 1 else f"{ours}, the best of the {arms} others on validation,"
    effect = f"{decision.effect} {decision.place}"
    if decision.nll.seeds < 2:
        return (
            f"Cannot tell whether {best} is better than {theirs}: one seed cannot tell a method from luck "
            f"({effect}, intervals over rows alone). Use {theirs}, the simpler, for now."
        )
    return {
        "better": f"Use {ours}: it is better than {theirs} ({effect}).",
        "worse": f"Use {theirs}: {best} is worse ({effect}).",
        "trade_off": f"Use {theirs} where accuracy counts, {ours} where the probabilities do: against "
        f"{theirs}, {ours} has {effect}.",
        "no_worse": f"Use {theirs}, the simpler: {best} is not better by more than {margin} ({effect}).",
        "cannot_tell": f"Cannot tell whether {best} is better than {theirs} ({effect}). Use {theirs}, the "
        "simpler, for now.",
    }[decision.answer]


def choice(chosen: Arm, seed: int, arms: int) -> str:
    """How it was decided."""
    correction = "" if arms == 1 else f", corrected for {arms} arms (Holm)"
    return (
        f"Chosen on validation alone, by NLL after temperature scaling: `{chosen.name}`, seed {seed}. "
        f"Intervals: 95 %{correction}."
    )


def exceptions(challenger: Arm, baseline: Arm, evidence: Sequence[Evidence], verdict: str) -> str:
    """When to take the other one all the same: a reader knows what data are to come, validation does not."""
    wanted = ("worse", "trade_off") if verdict == "better" else ("better",)
    other = label(baseline) if verdict == "better" else f"`{challenger.name}`"
    places = [f"`{one.split}`" for one in evidence if one.split != VALIDATION and one.answer in wanted]
    return f" Where the data to come look like {listing(places)}, take {other}." if places else ""


def _next_step(results: Results, decision: Evidence | None) -> tuple[str, tuple[int, ...]]:
    """What would tell, and the seeds to run for it."""
    present = sorted({record["seed"] for record in results.runs})
    if decision is None or decision.nll.seeds < 2:
        return (
            f"{SEEDS_AFTER_ONE} seeds show how much runs differ, and how many more are needed.",
            more_seeds(present, SEEDS_AFTER_ONE),
        )
    if decision.seeds_required is not None:
        return (
            f"About {decision.seeds_required} seeds would tell, if the differences stay as they are.",
            more_seeds(present, decision.seeds_required),
        )
    if decision.rows_required is not None:
        seeds, rows = decision.rows_required
        return (
            f"About {rows:,} validation rows (now {decision.rows:,}) and {seeds} seeds would tell, if the "
            "differences stay as they are; more rows need a comparison in a new directory.",
            (),
        )
    return (
        "Even 30 seeds and a hundred times the validation rows would not tell: the differences are too small "
        "for the margin. Take the simpler, test fewer methods, or allow a larger --margin.",
        (),
    )


def more_seeds(present: Sequence[int], count: int) -> tuple[int, ...]:
    """The seeds that are there, and the smallest others.

    >>> more_seeds([0, 7], 4)
    (0, 7, 1, 2)
    """
    others = [seed for seed in range(count + len(present)) if seed not in present]
    return (*present, *others[: max(count - len(present), 0)])


def _not_learned(
    results: Results, lines: tuple[str, ...], advice: str, plain: Arm | None, *, has_baseline: bool
) -> Recommendation:
    """No advice but that: what has not learned cannot be compared. The best plain run is named all the same,
    so that a comparison has a model."""
    who = "no other method has learned" if has_baseline else "plain has not learned"
    seed, run = best_run(results, plain) if plain is not None else (None, None)
    return Recommendation(
        verdict="not_learned",
        sentence=f"No advice: {who}, so the comparison says nothing about the methods.",
        choice="",
        chosen=plain.name if plain is not None else None,
        seed=seed,
        run=run,
        next_step=advice,
        notes=lines,
    )


def _nothing_to_compare(results: Results, only: Arm | None, *, has_plain: bool) -> Recommendation:
    if only is None:
        return Recommendation("nothing_to_compare", "No run has finished.", "", None, None, None)
    seed, run = best_run(results, only)
    missing = "nothing was compared with it" if has_plain else "plain has not finished"
    return Recommendation(
        "nothing_to_compare",
        f"`{only.name}` alone has results: {missing}.",
        f"Chosen: `{only.name}`, seed {seed}, for want of another.",
        only.name,
        seed,
        run,
    )


def label(baseline: Arm) -> str:
    return f"{baseline.name if baseline.name == 'plain' else f'`{baseline.name}`'} + TS"


def listing(parts: Sequence[str]) -> str:
    """
    >>> listing(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def _signed(difference: Difference, scale: float, decimals: int) -> str:
    shown = [
        f"{scale * value:+.{decimals}f}" for value in (difference.difference, difference.low, difference.high)
    ]
    shown = [text.replace("-", "−") if text.strip("+-0.") else text.lstrip("+-") for text in shown]
    return f"{shown[0]} [{shown[1]}, {shown[2]}]"
