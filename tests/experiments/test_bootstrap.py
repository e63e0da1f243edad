"""The paired bootstrap against slow loops, and whether its intervals hold what they promise."""

import numpy as np
import pytest

from calmix.calibration.evaluation import evaluate
from calmix.calibration.predictions import Predictions
from calmix.experiments.bootstrap import (
    METRICS,
    Resampled,
    RowScores,
    draw_counts,
    paired_difference,
    resample,
)


def draw(rows, seed, *, classes=3, scale=2.0, ids=None):
    generator = np.random.default_rng(seed)
    logits = generator.normal(scale=scale, size=(rows, classes))
    labels = (logits / 1.5 + generator.gumbel(size=logits.shape)).argmax(axis=1)
    names = ids if ids is not None else [f"row-{row}" for row in range(rows)]
    return Predictions.from_logits(logits, labels, ids=names)


def metrics_of(predictions):
    values = evaluate(predictions, intervals=False)
    return [values[metric] for metric in METRICS]


def test_without_resampling_the_metrics_are_those_of_evaluate():
    runs = [draw(200, seed) for seed in range(3)]
    samples = resample([RowScores.of(run) for run in runs], repetitions=0)
    for run, sample in zip(runs, samples, strict=True):
        assert sample.point == pytest.approx(metrics_of(run), abs=1e-12)


def test_a_repetition_is_evaluate_on_the_drawn_rows():
    runs = [draw(150, seed) for seed in range(2)]
    samples = resample([RowScores.of(run) for run in runs], repetitions=4, seed=9)
    order = np.argsort(runs[0].ids)  # rows are counted in the order of their ids
    for repetition in range(4):
        counts = draw_counts(150, 1, 9, repetition)[:, 0].astype(int)
        assert counts.sum() == 150
        drawn = np.repeat(order, counts)
        for run, sample in zip(runs, samples, strict=True):
            expected = metrics_of(run.select(drawn))
            assert sample.repetitions[:, repetition] == pytest.approx(expected, abs=1e-12)


def test_rows_are_paired_by_id_and_not_by_place():
    one = draw(300, 0)
    shuffled = one.select(np.random.default_rng(1).permutation(300))
    first, second = resample([RowScores.of(one), RowScores.of(shuffled)], repetitions=50)
    assert first.repetitions == pytest.approx(second.repetitions, abs=1e-12)
    found = paired_difference({0: first}, {0: second})
    assert all(d.low == pytest.approx(0, abs=1e-12) == d.high for d in found.values())


def test_runs_on_different_rows_are_measured_each_on_its_own():
    halves = [draw(80, 0, ids=[f"row-{row}" for row in range(80)]),
              draw(80, 1, ids=[f"row-{row}" for row in range(40, 120)])]  # fmt: skip
    samples = resample([RowScores.of(half) for half in halves], repetitions=3, seed=2)
    ids = sorted(f"row-{row}" for row in range(120))
    for repetition in range(3):
        count = dict(zip(ids, draw_counts(120, 1, 2, repetition)[:, 0].astype(int), strict=True))
        for half, sample in zip(halves, samples, strict=True):
            drawn = np.repeat(np.arange(80), [count[name] for name in half.ids])
            assert sample.repetitions[:, repetition] == pytest.approx(
                metrics_of(half.select(drawn)), abs=1e-12
            )


@pytest.mark.parametrize("rows", [1, 3, 6])
@pytest.mark.filterwarnings("error")
def test_few_rows_that_differ_by_seed_have_an_interval(rows):
    """Of validation rows split off 30 training rows, some repetitions draw none of a seed."""
    seeds = range(3)
    names = [[f"row-{seed}-{row}" for row in range(rows)] for seed in seeds]
    runs = [draw(rows, 10 * arm + seed, ids=names[seed]) for arm in range(2) for seed in seeds]
    samples = resample([RowScores.of(run) for run in runs])
    ours, theirs = dict(zip(seeds, samples[:3], strict=True)), dict(zip(seeds, samples[3:], strict=True))
    assert np.isnan(samples[0].repetitions).any()
    for place, found in enumerate(paired_difference(ours, theirs).values()):
        points = [ours[seed].point[place] - theirs[seed].point[place] for seed in seeds]
        # The t-interval over the seeds, and what the rows add to it.
        alone = 4.302653 * np.std(points, ddof=1) / np.sqrt(3)
        assert alone - 1e-6 <= found.high - found.difference < np.inf
        assert found.low + found.high == pytest.approx(2 * found.difference)


def test_rounding_is_no_difference():
    """A temperature of 1, which changes the last bits: nothing was gained, and nothing is significant."""
    runs = [draw(300, seed) for seed in range(3)]
    same = [run.with_temperature(1 - 1e-15) for run in runs]
    samples = resample([RowScores.of(run) for run in [*same, *runs]])
    assert any((samples[seed].point != samples[3 + seed].point).any() for seed in range(3))
    for found in paired_difference(dict(enumerate(samples[:3])), dict(enumerate(samples[3:]))).values():
        assert (found.difference, found.low, found.high) == (0.0, 0.0, 0.0)


def test_the_difference_is_the_mean_over_common_seeds():
    runs = {seed: draw(100, seed) for seed in range(5)}
    samples = resample([RowScores.of(run) for run in runs.values()], repetitions=10)
    ours, theirs = (
        {0: samples[0], 1: samples[1], 7: samples[4]},
        {0: samples[2], 1: samples[3], 8: samples[4]},
    )
    found = paired_difference(ours, theirs)
    for place, metric in enumerate(METRICS):
        values = [metrics_of(runs[number])[place] for number in range(4)]
        assert found[metric].difference == pytest.approx((values[0] - values[2] + values[1] - values[3]) / 2)
        assert found[metric].seeds == 2
    with pytest.raises(ValueError, match="no seed in common"):
        paired_difference({0: samples[0]}, {1: samples[1]})


def test_more_rows_narrow_the_interval_and_fewer_seeds_widen_it():
    def width(rows, seeds):
        ours = {seed: draw(rows, seed) for seed in range(seeds)}
        theirs = {seed: draw(rows, 100 + seed) for seed in range(seeds)}
        samples = resample([RowScores.of(run) for run in [*ours.values(), *theirs.values()]], repetitions=400)
        found = paired_difference(dict(enumerate(samples[:seeds])), dict(enumerate(samples[seeds:])))
        return found["nll"].high - found["nll"].low

    assert width(4000, 4) < width(250, 4)
    assert width(1000, 8) < width(1000, 3)


@pytest.mark.parametrize("seeds", [2, 3, 5])
@pytest.mark.parametrize("over_seeds", [0.0, 0.05, 0.3], ids=["rows alone", "both", "seeds mostly"])
def test_the_interval_covers_the_true_difference(seeds, over_seeds):
    """Row scores with a true mean difference of 0 and a spread over seeds: of a hundred intervals, about
    ninety-five hold 0, whichever source of chance is the larger."""
    generator = np.random.default_rng(5)
    rows, trials, repetitions = 200, 1000, 300
    counts = draw_counts(rows, repetitions, 0, 0) / rows
    held = 0
    for trial in range(trials):
        shared = generator.normal(scale=0.5, size=rows)
        pairs = []
        for _ in range(seeds):
            score = shared + generator.normal(scale=0.3, size=rows) + generator.normal(scale=over_seeds)
            pairs.append(Resampled(np.full(5, score.mean()), np.tile(score @ counts, (5, 1))))
        nothing = Resampled(np.zeros(5), np.zeros((5, repetitions)))
        found = paired_difference(dict(enumerate(pairs)), dict.fromkeys(range(seeds), nothing), seed=trial)[
            "nll"
        ]
        held += found.low <= 0 <= found.high
    # Three standard errors of 1000 trials below 95 %.
    assert held / trials >= 0.93
