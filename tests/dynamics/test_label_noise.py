from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calmix.dynamics.label_noise import order_statistic, plan_threshold_samples, threshold_filter


def slow_filter(aum, threshold, k):
    """Kept originals, from the definition, with exact arithmetic."""
    known_wrong = sorted(score for score, wrong in zip(aum, threshold, strict=True) if wrong)
    place = int(Fraction(str(k)) * len(known_wrong))
    cutoff = known_wrong[place - 1] if place else -np.inf
    pairs = enumerate(zip(aum, threshold, strict=True))
    return {row for row, (score, wrong) in pairs if not wrong and score > cutoff}


def members(mask):
    return set(np.flatnonzero(mask).tolist())


runs_of_scores = st.lists(st.tuples(st.integers(-5, 5).map(float), st.booleans()), min_size=1, max_size=40)
percentages = st.integers(1, 100).map(lambda percent: percent / 100)


class TestPlan:
    @pytest.mark.parametrize(("rows", "classes"), [(90, 2), (100, 3), (1000, 7), (11, 2)])
    def test_the_counts_are_a_share_of_the_whole_split_over_the_classes(self, rows, classes):
        labels = np.arange(rows) % classes
        plan = plan_threshold_samples(labels, classes, seed=0)
        threshold = plan.runs[0].threshold
        per_class = (rows // (classes + 1)) // classes
        assert np.bincount(labels[threshold], minlength=classes).tolist() == [per_class] * classes
        assert plan.findings == ()

    def test_threshold_samples_get_the_class_that_does_not_exist_and_others_keep_theirs(self):
        labels = np.arange(60) % 3
        run = plan_threshold_samples(labels, 3, seed=0).runs[0]
        assert (run.labels[run.threshold] == 3).all()
        assert (run.labels[~run.threshold] == labels[~run.threshold]).all()
        assert run.num_classes == 4

    def test_in_multiple_choice_they_get_a_wrong_choice_among_the_existing(self):
        labels = np.arange(4000) % 4
        run = plan_threshold_samples(labels, 4, seed=0, task="choice").runs[0]
        assert run.num_classes == 4
        assert run.threshold.sum() == 800
        offset = (run.labels - labels) % 4
        assert (offset[~run.threshold] == 0).all()
        counts = np.bincount(offset[run.threshold], minlength=4)
        assert counts[0] == 0
        assert (np.abs(counts[1:] - 800 / 3) < 60).all()  # each wrong choice about as often

    def test_two_runs_draw_disjoint_samples_and_the_first_is_that_of_a_single_run(self):
        labels = np.arange(300) % 3
        single = plan_threshold_samples(labels, 3, seed=4)
        double = plan_threshold_samples(labels, 3, seed=4, runs=2)
        first, second = double.runs
        assert not (first.threshold & second.threshold).any()
        assert first.threshold.sum() == second.threshold.sum() == 75
        np.testing.assert_array_equal(first.labels, single.runs[0].labels)

    @pytest.mark.parametrize("runs", [1, 2])
    def test_a_small_class_gives_half_its_rows_and_is_reported(self, runs):
        labels = np.repeat([0, 1], [95, 5])
        plan = plan_threshold_samples(labels, 2, seed=0, runs=runs, class_names=["no", "yes"])
        for run in plan.runs:
            assert np.bincount(labels[run.threshold]).tolist() == [16, 2]
        assert plan.findings == ("class 'yes' has 5 rows: 2 threshold samples instead of 16",)

    def test_classes_that_the_rows_lack_take_no_share(self):
        """Easy rows of two classes out of seven: c = 2, not 7, or there would be a tenth of the samples."""
        labels = np.repeat([3, 6], [300, 300])
        plan = plan_threshold_samples(labels, 7, seed=0)
        assert np.bincount(labels[plan.runs[0].threshold], minlength=7).tolist() == [0, 0, 0, 100, 0, 0, 100]
        assert (plan.runs[0].labels[plan.runs[0].threshold] == 7).all()
        assert plan.runs[0].num_classes == 8
        assert plan.findings == ()

    @pytest.mark.parametrize("classes", [2, 7])
    def test_a_row_more_of_a_rare_class_changes_little(self, classes):
        """An easy set may be of one class: its first row of another one must not change the whole filter."""
        counts = []
        for minority in range(60):
            labels = np.repeat([0, 1], [600 - minority, minority])
            counts.append(int(plan_threshold_samples(labels, classes, seed=0).runs[0].threshold.sum()))
        assert counts[0] == 100  # a sixth, as many as the larger of two classes gives
        assert np.abs(np.diff(counts)).max() <= 1

    def test_a_third_class_comes_in_gradually(self):
        counts = []
        for third in range(200):
            labels = np.repeat([0, 1, 2], [(600 - third) // 2, (601 - third) // 2, third])
            counts.append(int(plan_threshold_samples(labels, 3, seed=0).runs[0].threshold.sum()))
        assert counts[0] == 200 and counts[-1] == 150  # N/3 and N/4
        assert np.abs(np.diff(counts)).max() <= 4

    def test_the_seed_decides(self):
        labels = np.arange(300) % 3
        draws = [plan_threshold_samples(labels, 3, seed=seed).runs[0].threshold for seed in (0, 0, 1)]
        np.testing.assert_array_equal(draws[0], draws[1])
        assert (draws[0] != draws[2]).any()

    @pytest.mark.parametrize(
        ("labels", "classes", "runs", "message"),
        [
            ([0, 1], 2, 3, "runs must be 1 or 2"),
            ([0, 2], 2, 1, r"integers in 0\.\.1"),
            ([0, -1], 2, 1, r"integers in 0\.\.1"),
        ],
    )
    def test_bad_input_is_refused(self, labels, classes, runs, message):
        with pytest.raises(ValueError, match=message):
            plan_threshold_samples(labels, classes, seed=0, runs=runs)


class TestFilter:
    @given(runs_of_scores, percentages)
    def test_agrees_with_the_definition(self, rows, k):
        aum, threshold = (np.array(column) for column in zip(*rows, strict=True))
        verdict = threshold_filter([aum], [threshold], k=k)
        assert members(verdict.kept) == slow_filter(aum.tolist(), threshold.tolist(), k)
        assert members(verdict.unscored) == members(threshold)
        assert (verdict.kept.astype(int) + verdict.flagged + verdict.unscored == 1).all()

    @given(runs_of_scores, percentages, percentages)
    def test_a_larger_k_never_keeps_more(self, rows, one, other):
        aum, threshold = (np.array(column) for column in zip(*rows, strict=True))
        loose, strict = (
            threshold_filter([aum], [threshold], k=k).kept for k in (min(one, other), max(one, other))
        )
        assert (strict <= loose).all()

    def test_k_of_one_keeps_only_what_lies_above_every_threshold_sample(self):
        generator = np.random.default_rng(0)
        aum, threshold = generator.normal(size=500), generator.random(500) < 0.3
        verdict = threshold_filter([aum], [threshold], k=1.0)
        assert members(verdict.kept) == members((aum > aum[threshold].max()) & ~threshold)

    def test_the_cutoff_is_an_order_statistic_without_interpolation(self):
        aum = np.concatenate([np.arange(10.0), [4.0, 4.5, 5.0]])
        threshold = np.arange(13) < 10
        verdict = threshold_filter([aum], [threshold], k=0.55)  # ⌊5.5⌋ = 5th smallest: 4.0
        assert verdict.cutoffs == (4.0,)
        assert members(verdict.flagged) == {10}  # an AUM equal to the cut-off is flagged

    @pytest.mark.parametrize("percent", range(1, 101))
    def test_the_place_is_exact_for_every_percentage(self, percent):
        assert order_statistic(percent / 100, 100) == percent
        assert order_statistic(percent / 100, 1000) == 10 * percent

    def test_float_products_would_be_wrong_for_some(self):
        assert [percent for percent in range(101) if int(percent / 100 * 100) != percent] == [29, 57, 58]

    def test_too_few_threshold_samples_flag_nothing_and_say_so(self):
        verdict = threshold_filter([[0.0, -9.0, 9.0]], [[True, False, False]], k=0.8)
        assert verdict.cutoffs == (-np.inf,)
        assert members(verdict.kept) == {1, 2}
        assert verdict.findings == ("run 1: 1 threshold samples are too few for k = 0.8",)

    def test_unscored_rows_can_be_kept(self):
        aum, threshold = [1.0, 0.0, 5.0, np.nan], [True, False, False, False]
        dropped = threshold_filter([aum], [threshold], k=1.0)
        kept = threshold_filter([aum], [threshold], k=1.0, unscored="keep")
        assert members(dropped.kept) == {2}
        assert members(kept.kept) == {0, 2, 3}
        assert members(kept.flagged) == members(dropped.flagged) == {1}

    def test_in_two_runs_a_row_is_flagged_only_if_every_run_that_judged_it_says_so(self):
        #       t1   t2   both bad  bad, good  good
        one = [0.0, 9.0, -1.0, -1.0, 5.0]
        two = [-2.0, 0.0, -1.0, 5.0, 5.0]
        masks = [[True, False, False, False, False], [False, True, False, False, False]]
        verdict = threshold_filter([one, two], masks, k=1.0)
        assert members(verdict.flagged) == {0, 2}  # row 0 was an original in the second run only
        assert not verdict.unscored.any()
        assert verdict.aum.tolist() == [-2.0, 9.0, -1.0, 2.0, 5.0]

    def test_the_most_suspicious_come_first(self):
        aum = [0.0, 1.0, 0.5, -3.0, -2.0, 7.0]
        threshold = [True, True, False, False, False, False]
        verdict = threshold_filter([aum], [threshold], k=1.0)
        assert verdict.level.tolist()[2:] == [0.5, 0.0, 0.0, 1.0]
        assert verdict.most_suspicious().tolist() == [3, 4, 2]

    def test_planted_errors_are_found(self):
        # A world where the margin is 3 for right labels and −3 for wrong ones, with noise.
        generator = np.random.default_rng(0)
        labels = generator.integers(0, 2, 2000)
        wrong = generator.random(2000) < 0.1
        plan = plan_threshold_samples(labels, 2, seed=0, runs=2)
        aums = [
            np.where(wrong | run.threshold, -3, 3) + generator.normal(scale=1, size=2000) for run in plan.runs
        ]
        verdict = threshold_filter(aums, plan.runs, k=0.99)
        found = verdict.flagged & ~np.isnan(verdict.aum)
        assert (found & wrong).sum() / wrong.sum() > 0.95
        assert (found & wrong).sum() / found.sum() > 0.95

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: threshold_filter([[1.0]], [[True]], k=0), "k must lie in"),
            (lambda: threshold_filter([[1.0]], [[True]], k=99), "k must lie in"),
            (lambda: threshold_filter([[1.0]], []), "one AUM array for each run"),
            (lambda: threshold_filter([[1.0]], [[True, False]]), "one entry per row"),
            (lambda: threshold_filter([[1.0]], [[True]], unscored="maybe"), "'drop' or 'keep'"),
        ],
    )
    def test_bad_input_is_refused(self, call, message):
        with pytest.raises(ValueError, match=message):
            call()
