"""The guided methods against slow references written from the formulas.

The references find saliency with autograd, partners with loops, and losses row by row.
"""

import numpy as np
import pytest
import torch
from torch.nn.functional import cosine_similarity, cross_entropy

from calmix.data.batches.grouped import RowGroups
from calmix.data.batches.sampler import EpochBatchSampler
from calmix.dynamics.datamap import DataMap
from calmix.dynamics.training_dynamics import TrainingDynamics
from calmix.mixing.bank import SaliencyBank
from calmix.mixing.known_rows import KnownRows
from calmix.mixing.method import get_method
from calmix.mixing.pairing import apart
from calmix.mixing.step import Moment
from calmix.runtime.randomness import stream
from calmix.user_error import UserError
from linear_head import LinearHead, given_logits, make_step

ROWS, CLASSES, SEED = 12, 4, 7
MOMENT = Moment(SEED, epoch=1, step=5, batch=3)


def drawn_ratio(alpha=0.4):
    return float(np.float32(stream(SEED, "ratio", MOMENT.step).beta(alpha, alpha)))


def batch(classes=CLASSES, rows=ROWS, seed=0, groups=2, **more):
    generator = torch.Generator().manual_seed(seed)
    network = LinearHead(
        torch.randn(rows, 6, generator=generator),
        torch.randn(classes, 6, generator=generator),
        torch.randn(classes, generator=generator),
    )
    labels = torch.randint(0, classes, (rows,), generator=generator)
    step = make_step(network, labels, moment=MOMENT, groups=np.arange(rows) % groups, **more)
    return network, step


def targets(labels, classes, smoothing=0.0):
    """True class 1 − ε, every other class ε/(C − 1)."""
    made = torch.full((len(labels), classes), smoothing / (classes - 1))
    made[range(len(labels)), labels] = 1 - smoothing
    return made


def logits_of(network):
    logits = network.features @ network.weight.T + network.bias
    return logits.reshape(-1, network.choices) if network.choices else logits


def slow_saliency(network, step, kind):
    """By backward passes, one row at a time."""
    maps = []
    for row in range(step.rows):
        features = network.features.reshape(step.rows, -1, network.features.shape[1])[row]
        features = features.detach().clone().requires_grad_()  # one, or one for each choice
        logits = (features @ network.weight.detach().T + network.bias).double().reshape(1, -1)
        logits.retain_grad()
        cross_entropy(logits, step.labels[row : row + 1]).backward()
        of_features = (features.grad * features.detach()).reshape(-1)
        maps.append(logits.grad.abs()[0] if kind == "logits" else of_features)
    return torch.stack(maps)


def slow_partners(saliency, step, pick):
    partners = []
    for row in range(step.real_rows):
        others = [j for j in range(step.real_rows) if step.groups[j] != step.groups[row]]
        cosines = [float(cosine_similarity(saliency[row], saliency[j], dim=0)) for j in others]
        partners.append(others[pick(range(len(others)), key=cosines.__getitem__)])
    return partners


def slow_aum_saliency(network, step, weights=(0.8, 0.1, 0.1), smoothing=0.0, kind="logits"):
    logits = logits_of(network)
    ratio, goals = drawn_ratio(), targets(step.labels, step.num_classes, smoothing)
    saliency = slow_saliency(network, step, kind)
    total = torch.zeros(())
    for row in range(step.real_rows):
        total = total + weights[0] * cross_entropy(logits[row], step.labels[row])
        for weight, pick in zip(weights[1:], (max, min), strict=True):
            other = slow_partners(saliency, step, pick)[row]
            mixed = ratio * logits[row] + (1 - ratio) * logits[other]
            total = total + weight * cross_entropy(mixed, ratio * goals[row] + (1 - ratio) * goals[other])
    return total / step.real_rows


def assert_same(method, slow, make=batch, **settings):
    """Loss and gradients of a method are those of the reference."""
    network, step = make(**settings)
    loss = method.losses(step).losses[: step.real_rows].mean()
    loss.backward()
    reference_network, reference_step = make(**settings)
    reference = slow(reference_network, reference_step)
    reference.backward()
    assert loss.item() == pytest.approx(reference.item(), rel=1e-5)
    for name in ("features", "weight"):
        got, wanted = getattr(network, name).grad, getattr(reference_network, name).grad
        np.testing.assert_allclose(got, wanted, atol=2e-6)


@pytest.mark.parametrize("seed", range(4))
def test_aum_saliency_is_its_formula(seed):
    network, step = batch(seed=seed)
    saliency = slow_saliency(network, step, "logits")
    labels_met = {int(step.labels[j]) for j in slow_partners(saliency, step, max)}
    assert len(labels_met) > 1  # one partner's label for the whole batch would be noticed
    assert_same(get_method("aum-saliency"), slow_aum_saliency, seed=seed)


def test_aum_saliency_encodes_once():
    for classes in (2, 4):
        network, step = batch(classes=classes)
        get_method("aum-saliency").losses(step)
        assert network.calls == 1


@pytest.mark.parametrize("seed", range(3))
def test_two_classes_are_paired_by_gradient_times_input(seed):
    def slow(network, step):
        return slow_aum_saliency(network, step, kind="gradient-input")

    assert_same(get_method("aum-saliency"), slow, seed=seed, classes=2)
    _, step = batch(classes=2, seed=seed)
    assert int(get_method("aum-saliency").losses(step).tally["ties"]) == 0


def test_two_classes_by_logits_tie_always_and_say_so():
    _, step = batch(classes=2)
    tally = get_method("aum-saliency", saliency="logits").losses(step).tally
    assert tally["searches"] == 2 * ROWS == int(tally["ties"])


def test_smoothing_touches_the_mixed_targets_only():
    def slow(network, step):
        return slow_aum_saliency(network, step, smoothing=0.3)

    assert_same(get_method("aum-saliency", label_smoothing=0.3), slow)


@pytest.mark.parametrize(
    ("options", "weights"),
    [({"similar": False}, (0.9, 0.0, 0.1)), ({"dissimilar": False}, (0.9, 0.1, 0.0))],
)
def test_ablations_give_the_weight_to_the_originals(options, weights):
    def slow(network, step):
        return slow_aum_saliency(network, step, weights=weights)

    assert_same(get_method("aum-saliency", **options), slow)


def test_the_authors_weights_are_those_of_their_gradients():
    # B = 16 of each half; the published settings and the shares that their code comes to.
    for classes, shares in (
        (3, (0.724, 0.138, 0.138)),
        (2, (0.636, 0.182, 0.182)),
        (4, (0.778, 0.111, 0.111)),
    ):
        step = make_step(given_logits(np.zeros((32, classes))), np.zeros(32, int), groups=np.arange(32) % 2)
        assert get_method("aum-saliency", preset="authors").weights(step) == pytest.approx(shares, abs=1e-3)


def test_partners_do_not_depend_on_how_sure_the_network_is():
    """A cosine with an epsilon on tiny gradients prefers partners with a large loss."""
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(ROWS, CLASSES, generator=generator)
    labels = torch.randint(0, CLASSES, (ROWS,), generator=generator)
    met = []
    for sure in (0.0, 15.0):  # at 15 the gradients are of size 1e-6
        network = given_logits(logits + sure * torch.nn.functional.one_hot(labels, CLASSES))
        step = make_step(network, labels, moment=MOMENT, groups=np.arange(ROWS) % 2)
        met.append([pairs.second.tolist() for pairs in get_method("aum-saliency").losses(step).pairs])
    assert met[0] == met[1]


def test_without_saliency_partners_are_random_and_still_trained_on():
    method = get_method("aum-saliency", saliency="none", alpha=1.0)
    network, step = batch()
    result = method.losses(step)
    assert all((step.groups[p.second.numpy()] != step.groups).all() for p in result.pairs)
    assert result.pairs[0].second.tolist() != result.pairs[1].second.tolist()
    result.losses.mean().backward()
    plain_network, plain_step = batch()
    get_method("plain").losses(plain_step).losses.mean().backward()
    assert not torch.allclose(network.weight.grad, plain_network.weight.grad, atol=1e-4)


@pytest.mark.parametrize("name", ["aum-saliency", "informed-mixup"])
def test_without_mixing_it_is_plain(name):
    network, step = batch(groups=3 if name == "informed-mixup" else 2)
    loss = get_method(name, alpha=0.0).losses(step).losses.mean()
    plain = get_method("plain").losses(batch()[1]).losses.mean()
    if name == "aum-saliency":
        assert loss.item() == pytest.approx(plain.item(), rel=1e-6)
    else:  # λ = 1: the mixed rows are the easy ones
        easy = cross_entropy((network.features @ network.weight.T + network.bias)[::3], step.labels[::3])
        assert loss.item() == pytest.approx((0.5 * plain + 0.5 * easy).item(), rel=1e-6)


@pytest.mark.parametrize("name", ["aum-saliency", "tdmixup", "informed-mixup"])
def test_padding_rows_count_for_nothing(name):
    method = get_method(name)
    groups = 3 if name == "informed-mixup" else 2
    network, step = batch(rows=9, groups=groups)
    whole = method.losses(step).losses.mean()
    padded = LinearHead(
        torch.cat([network.features.detach(), torch.full((2, 6), 50.0)]),
        network.weight.detach(),
        network.bias,
    )
    labels = torch.cat([step.labels, torch.tensor([0, 1])])
    more = make_step(padded, labels, moment=MOMENT, groups=np.append(step.groups, [0, 1]), real=9)
    loss = method.losses(more).losses[:9].mean()
    assert loss.item() == pytest.approx(whole.item(), rel=1e-6)
    loss.backward()
    assert (padded.features.grad[9:] == 0).all()


@pytest.mark.parametrize("name", ["aum-saliency", "tdmixup", "informed-mixup"])
def test_a_batch_of_padding_alone_has_a_gradient_of_zero(name):
    network, step = batch(rows=4, real=0)
    get_method(name).losses(step).losses[:0].sum().backward()
    assert network.weight.grad is not None and (network.weight.grad == 0).all()


def slow_pairs(step):
    """The j-th row of the smaller group meets the row that the seeded order gives it."""
    first, second = [[i for i in range(step.real_rows) if step.groups[i] == g] for g in (0, 1)]
    count = min(len(first), len(second))
    chosen = stream(SEED, "pairs", MOMENT.epoch, MOMENT.batch).permutation(max(len(first), len(second)))[
        :count
    ]
    if len(first) > len(second):
        return [(first[c], j) for c, j in zip(chosen, second, strict=True)]
    return [(i, second[c]) for i, c in zip(first, chosen, strict=True)]


def slow_means(network, step, smoothing=0.0):
    """(mean CE of each group, mean CE of the mixed pairs), with hard originals."""
    logits = logits_of(network)
    ratio, goals = drawn_ratio(), targets(step.labels, step.num_classes, smoothing)
    of_group = [
        torch.stack(
            [cross_entropy(logits[i], step.labels[i]) for i in np.flatnonzero(step.groups == g)]
        ).mean()
        for g in np.unique(step.groups)
    ]
    mixed = [
        cross_entropy(ratio * logits[i] + (1 - ratio) * logits[j], ratio * goals[i] + (1 - ratio) * goals[j])
        for i, j in slow_pairs(step)
    ]
    return of_group, torch.stack(mixed).mean()


def test_tdmixup_is_the_mean_of_three_means():
    def slow(network, step):
        (easy, ambiguous), mixed = slow_means(network, step, smoothing=0.2)
        return (easy + ambiguous + mixed) / 3

    assert_same(get_method("tdmixup", label_smoothing=0.2), slow)
    assert_same(get_method("tdmixup", label_smoothing=0.2), slow, rows=11)  # an odd row stays unmixed


def test_tdmixup_with_the_authors_weights():
    def slow(network, step):
        (easy, ambiguous), mixed = slow_means(network, step)
        return 0.5 * easy + 0.5 * ambiguous + 0.01 * (ROWS / 2) / CLASSES * mixed

    assert_same(get_method("tdmixup", preset="authors"), slow)


@pytest.mark.parametrize("rows", [12, 13, 14])
def test_informed_mixup_weighs_two_means(rows):
    def slow(network, step):
        logits = network.features @ network.weight.T + network.bias
        _, mixed = slow_means(network, step)
        return 0.7 * cross_entropy(logits, step.labels) + 0.3 * mixed

    assert_same(get_method("informed-mixup", mixed_weight=0.3), slow, groups=3, rows=rows)


def test_the_ratio_is_drawn_anew_in_every_step():
    ratios = set()
    for number in range(8):
        network, step = batch()
        step = make_step(network, step.labels, moment=Moment(SEED, 0, number, number), groups=step.groups)
        ratios.add(round(float(get_method("tdmixup").losses(step).pairs[0].ratio[0]), 9))
    assert len(ratios) == 8


def batch_of_choices(rows=8, choices=4, seed=0):
    """A row is one feature vector for each choice, and the head has one output."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(rows * choices, 5, generator=generator)
    network = LinearHead(features, torch.randn(1, 5, generator=generator), choices=choices)
    labels = torch.randint(0, choices, (rows,), generator=generator)
    return network, make_step(network, labels, moment=MOMENT, groups=np.arange(rows) % 2)


@pytest.mark.parametrize("kind", ["logits", "gradient-input"])
def test_a_choice_head_is_guided_by_the_same_formula(kind):
    def slow(network, step):
        return slow_aum_saliency(network, step, kind=kind)

    assert_same(get_method("aum-saliency", saliency=kind), slow, make=batch_of_choices)


def test_the_choices_of_easy_and_ambiguous_rows_meet_one_by_one():
    def slow(network, step):
        (easy, ambiguous), mixed = slow_means(network, step)
        return (easy + ambiguous + mixed) / 3

    assert_same(get_method("tdmixup"), slow, make=batch_of_choices)


def test_global_partners_come_from_the_bank_with_their_own_logits_and_labels():
    method = get_method("aum-saliency", scope="global", alpha=1.0)
    generator = np.random.default_rng(2)
    logits = generator.normal(size=(40, CLASSES)).astype(np.float32)
    labels = generator.integers(0, CLASSES, 40)
    halves = (np.arange(0, 40, 2), np.arange(1, 40, 2))
    bank = method.make_bank(logits, labels, halves)
    assert isinstance(bank, SaliencyBank)
    network, step = batch(bank=bank)
    result = method.losses(step)
    ratio = drawn_ratio(1.0)
    z = (network.features @ network.weight.T + network.bias).detach()
    expected = 0.8 * cross_entropy(z, step.labels, reduction="none")
    for pairs in result.pairs:
        other = pairs.second.numpy()
        assert pairs.from_bank and all(o % 2 != g for o, g in zip(other, step.groups, strict=True))
        goals = ratio * targets(step.labels, CLASSES) + (1 - ratio) * targets(labels[other], CLASSES)
        mixed = ratio * z + (1 - ratio) * torch.from_numpy(logits[other])
        expected += 0.1 * torch.stack([cross_entropy(m, g) for m, g in zip(mixed, goals, strict=True)])
    np.testing.assert_allclose(result.losses.detach(), expected, rtol=1e-5)


def a_map(rows=60, seed=0):
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(rows, 3, CLASSES))
    return DataMap.from_dynamics(TrainingDynamics.from_logits(logits, generator.integers(0, CLASSES, rows)))


def test_halves_are_split_at_the_exact_median():
    known = KnownRows(a_map())
    groups = get_method("aum-saliency").groups(known)
    low, high = groups.positions
    median = np.median(known.datamap.aum)
    assert (known.datamap.aum[low] < median).all() and (known.datamap.aum[high] >= median).all()
    assert len(low) + len(high) == 60 and groups.cover == "shortest"


def test_a_map_without_any_margin_cannot_be_split():
    with pytest.raises(UserError, match="no area under the margin of any training row"):
        get_method("aum-saliency").groups(KnownRows(DataMap.unknown(6)))


def test_random_halves_are_random_and_seeded():
    method = get_method("aum-saliency", split="random")
    assert method.needed == ()
    first, second = (method.groups(KnownRows(DataMap.unknown(60), seed)).positions for seed in (1, 2))
    assert first[0].tolist() != list(range(30)) != second[0].tolist()
    assert first[0].tolist() != second[0].tolist()
    assert sorted(np.concatenate(first)) == list(range(60))


def test_tdmixup_takes_the_top_thirds_and_filters_the_easy_one():
    asked = []

    def keep_even(rows, rule):
        asked.append((rows.tolist(), rule.percentile, rule.passes))
        return rows[rows % 2 == 0]

    known = KnownRows(a_map(), 0, keep_even)
    groups = get_method("tdmixup", percentile=0.5, passes=2).groups(known)
    by_confidence = np.argsort(-known.datamap.confidence)[:20]
    by_variability = np.argsort(-known.datamap.variability)[:20]
    assert asked == [(sorted(by_confidence.tolist()), 0.5, 2)]
    assert groups.positions[0].tolist() == sorted(i for i in by_confidence if i % 2 == 0)
    assert groups.positions[1].tolist() == sorted(by_variability)
    assert groups.cover == "longest"


def test_the_random_pairs_of_tdmixup_come_from_the_union_before_any_filter():
    """Table 3: "66 % train (random)"; nothing is trained to filter it."""
    known = KnownRows(a_map(), 0, filter_labels=None)
    method = get_method("tdmixup", pairing="random")
    union = {
        *np.argsort(-known.datamap.confidence)[:20].tolist(),
        *np.argsort(-known.datamap.variability)[:20].tolist(),
    }
    assert [rows.tolist() for rows in method.groups(known).positions] == [sorted(union)] * 2
    assert method.needed == ("data map",)


def pairs_of_epoch(method, groups, *, epoch, lengths, batch_size=16):
    """The training rows that really meet in an epoch, batch by batch as the trainer makes them."""
    sampler = EpochBatchSampler(groups.rows_per_epoch, batch_size, 0, lengths=lengths, groups=groups)
    sampler.set_epoch(epoch)
    for number, keys in enumerate(sampler):
        positions, numbers = np.array([(key.position, key.group) for key in keys]).T
        network = LinearHead(torch.randn(len(keys), 2), torch.randn(CLASSES, 2))
        labels = torch.zeros(len(keys), dtype=torch.long)
        moment = Moment(seed=0, epoch=epoch, step=number, batch=number)
        step = make_step(network, labels, moment=moment, groups=numbers, positions=positions)
        (pairs,) = method.losses(step).pairs
        yield positions[pairs.first.numpy()], positions[pairs.second.numpy()]


@pytest.mark.parametrize("rows", [300, 700])
def test_no_row_of_two_groups_meets_itself(rows):
    lengths = np.random.default_rng(0).integers(5, 60, rows)
    both = np.arange(rows)
    groups = RowGroups(("a", "b"), (both, both), "longest")
    method = get_method("tdmixup", pairing="random")
    met = [p for epoch in range(5) for p in pairs_of_epoch(method, groups, epoch=epoch, lengths=lengths)]
    assert not any((first == second).any() for first, second in met)
    different = {pair for first, second in met for pair in zip(first.tolist(), second.tolist(), strict=True)}
    assert len(different) > 3 * rows  # of 5 times as many: the partners change
    assert sum(len(first) for first, _ in met) > 0.99 * 5 * rows


@pytest.mark.parametrize("rows", range(2, 9))
def test_partners_are_swapped_where_a_row_would_meet_itself_and_nowhere_else(rows):
    for seed in range(50):
        generator = np.random.default_rng(seed)
        first, second = generator.permutation(10)[:rows], generator.permutation(10)[: rows + seed % 3]
        order = generator.permutation(len(second))
        found, differ = apart(first, second, order)
        assert sorted(found) == list(range(len(second)))
        assert differ.all() and not (first == second[found[:rows]]).any()
        if not (first == second[order[:rows]]).any():
            assert found.tolist() == order.tolist()


def test_a_row_alone_with_its_copy_is_left_out():
    _, differ = apart(np.array([3]), np.array([3]), np.array([0]))
    assert differ.tolist() == [False]


def test_a_filter_that_nobody_can_run_is_refused_with_the_remedy():
    with pytest.raises(UserError, match="aum_filter=false"):
        get_method("tdmixup").groups(KnownRows(a_map()))


@pytest.mark.parametrize("originals", ["all", "subset"])
def test_informed_mixup_uses_the_partition(originals):
    known = KnownRows(a_map())
    groups = get_method("informed-mixup", originals=originals).groups(known)
    regions = known.datamap.partition()
    names = ("easy", "ambiguous", "hard")[: 3 if originals == "all" else 2]
    assert groups.names == names and groups.cover == "all"
    for name, rows in zip(names, groups.positions, strict=True):
        assert rows.tolist() == np.flatnonzero(getattr(regions, name)).tolist()
    assert len(set(np.concatenate(groups.positions))) == groups.rows_per_epoch  # distinct


@pytest.mark.parametrize("fraction", [0.25, 1 / 3, 0.5])
def test_informed_mixup_takes_the_same_top_fraction_of_both_regions(fraction):
    known = KnownRows(a_map())
    count = round(fraction * 60)
    easy = set(np.argsort(-known.datamap.confidence)[:count].tolist())
    ambiguous = set(np.argsort(-known.datamap.variability)[:count].tolist())
    options = {"regions": "top-fraction", "fraction": fraction}
    groups = get_method("informed-mixup", **options).groups(known)
    found = [set(rows.tolist()) for rows in groups.positions]
    assert found[:2] == [easy, ambiguous]
    assert set().union(*found) == set(range(60))  # all rows are trained on
    subset = get_method("informed-mixup", originals="subset", **options).groups(known)
    assert [set(rows.tolist()) for rows in subset.positions] == [easy, ambiguous]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("informed-mixup", {"regions": "thirds"}),
        ("aum-saliency", {"preset": "mine"}),
        ("aum-saliency", {"similar": False, "dissimilar": False}),
        ("aum-saliency", {"scope": "global", "saliency": "gradient-input"}),
        ("aum-saliency", {"saliency": "gradient-input", "metric": "l2_raw"}),
        ("rankmixup", {"ratio_scope": "sample"}),
        ("tdmixup", {"fraction": 0.0}),
        ("tdmixup", {"passes": 3}),
        ("informed-mixup", {"mixed_weight": 1.5}),
    ],
)
def test_options_that_mean_nothing_are_refused(name, options):
    with pytest.raises(UserError):
        get_method(name, **options)
