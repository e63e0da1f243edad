"""Padding of pairs: what each variant gives, and that the two members of a pair are treated alike."""

import pytest
import torch
import transformers

from calmix.mixing.padding import PADDINGS, pad_pairs
from calmix.mixing.step import Mix
from calmix.models.mix_points import MixPoints
from calmix.user_error import UserError
from tiny import FAMILIES, build_config

FILLERS = {"sep": 3, "unused": 5, "pad": 0}
IDS = torch.tensor([[2, 7, 3, 0, 0, 0], [2, 8, 9, 10, 3, 0], [2, 11, 12, 13, 14, 3], [2, 15, 16, 3, 0, 0]])
PARTNER = torch.tensor([1, 0, 3, 2])


def batch():
    mask = torch.tensor([[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])
    return {"input_ids": IDS.clone(), "attention_mask": mask}


def padded(variant, ratio=0.3, **more):
    return pad_pairs(
        batch(), PARTNER, torch.tensor(ratio), variant=variant, fillers=FILLERS, longest=8, **more
    )


@pytest.mark.parametrize(("variant", "filler"), [("sep-pair", 3), ("unused-pair", 5), ("pad-pair", 0)])
def test_a_pair_is_padded_to_its_longer_member_and_no_further(variant, filler):
    inputs = padded(variant).inputs
    assert inputs["input_ids"][0].tolist() == [2, 7, 3, filler, filler, 0]
    assert inputs["attention_mask"].sum(1).tolist() == [5, 5, 6, 6]
    assert inputs["input_ids"][3].tolist() == [2, 15, 16, 3, filler, filler]


@pytest.mark.parametrize("variant", ["sep-max", "unused-max", "pad-max"])
def test_the_max_variants_fill_every_text_to_the_longest_there_is(variant):
    inputs = padded(variant).inputs
    assert inputs["input_ids"].shape == (4, 8)
    assert inputs["attention_mask"].all()


def test_without_padding_the_tail_of_the_longer_text_stays_unmixed():
    result = padded("none")
    assert result.ratio[0].tolist() == pytest.approx([0.3, 0.3, 0.3, 0, 0, 0])
    assert result.ratio[1].tolist() == pytest.approx([0.3, 0.3, 0.3, 1, 1, 0])
    assert result.inputs["attention_mask"].sum(1).tolist() == [5, 5, 6, 6]


def test_the_filler_continues_the_last_segment():
    inputs = {**batch(), "token_type_ids": torch.tensor([[0, 0, 1, 0, 0, 0]] * 4)}
    given = pad_pairs(inputs, PARTNER, torch.tensor(0.5), fillers=FILLERS).inputs["token_type_ids"]
    assert given[0].tolist() == [0, 0, 1, 1, 1, 0]


@pytest.mark.parametrize("variant", PADDINGS)
@pytest.mark.parametrize("family", FAMILIES)
def test_swapping_the_members_and_the_ratio_changes_nothing(family, variant):
    """(λ, a, b) = (1 − λ, b, a): true only if both members sit at the same positions."""
    torch.manual_seed(0)
    config = build_config(family, dropout=0.0)
    config.num_labels = 3
    model = transformers.AutoModelForSequenceClassification.from_config(config).eval()
    mix_points = MixPoints(model)
    table = {n: m for n, m in model.named_modules() if n.endswith("embeddings.position_embeddings")}
    first = next((m.padding_idx for m in table.values() if m.padding_idx is not None), None)
    logits = []
    for ratio in (0.3, 0.7):
        pairs = padded(variant, ratio, first_position=first)
        cut = mix_points.hook(0, Mix(0, PARTNER, pairs.ratio), pairs.inputs)
        with torch.no_grad():
            logits.append(model(**pairs.inputs).logits)
        cut.remove()
    assert torch.allclose(logits[0], logits[1][PARTNER], atol=1e-5)


def test_texts_padded_on_the_left_are_refused():
    flipped = {name: tensor.flip(1) for name, tensor in batch().items()}
    with pytest.raises(UserError, match="padded on the left"):
        pad_pairs(flipped, PARTNER, torch.tensor(0.5), fillers=FILLERS)


def test_a_missing_filler_is_said():
    with pytest.raises(UserError, match="needs a token"):
        pad_pairs(batch(), PARTNER, torch.tensor(0.5), variant="unused-pair", fillers={"sep": 3})
