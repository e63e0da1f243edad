"""A linear layer on [CLS]: what is trained is linear, and the standard checkpoint computes the same."""

from copy import deepcopy

import pytest
import torch
from transformers import AutoModelForMultipleChoice, AutoModelForSequenceClassification

from calmix.models.linear_head import EPSILON, in_standard_form, use_linear_head
from calmix.models.loading import load_classifier
from calmix.training.pipeline.stages import train_staged
from calmix.user_error import UserError

FAMILIES = ("bert", "roberta", "mpnet")
LABELS = ("bad", "good", "so")


@pytest.fixture
def batch():
    torch.manual_seed(0)
    tokens = torch.randint(5, 60, (6, 9))
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}


def linear(path):
    model = load_classifier(str(path), task="single", label_names=LABELS, seed=0)
    use_linear_head(model)
    return model


def last_layer(model):
    return getattr(model.classifier, "out_proj", model.classifier)


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_linear_in_the_last_state_of_the_first_token(family, encoders, batch):
    model = linear(encoders(family, dropout=0.0)).train()  # no dropout of the head either
    states = model.base_model(**batch).last_hidden_state[:, 0]
    torch.testing.assert_close(model(**batch).logits, last_layer(model)(states))
    model(**batch).logits.sum().backward()
    frozen = {name for name, parameter in model.named_parameters() if parameter.grad is None}
    assert {name.rpartition("dense.")[0] for name in frozen if "dense" in name}
    assert all("dense" in name or "position" in name or "relative" in name for name in frozen), frozen


@pytest.mark.parametrize("family", FAMILIES)
def test_the_standard_class_loads_the_same_function(family, encoders, batch, tmp_path):
    model = linear(encoders(family)).eval()
    with torch.no_grad():
        last_layer(model).weight.mul_(50)  # as of a trained head: confident
        expected = model(**batch).logits
        before = deepcopy(model.state_dict())
        with in_standard_form(model):
            model.save_pretrained(tmp_path)
        loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
        torch.testing.assert_close(loaded(**batch).logits, expected, rtol=1e-5, atol=1e-5)
        # The network itself goes on as it was, to the bit.
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
        assert torch.equal(model(**batch).logits, expected)
        copy = deepcopy(model)
        last_layer(model).weight.zero_()
        assert torch.equal(copy(**batch).logits, expected)


def test_a_saved_linear_head_is_trained_from_a_new_one(encoders, batch, tmp_path):
    model = linear(encoders("roberta"))
    with in_standard_form(model):
        model.save_pretrained(tmp_path)
    again = load_classifier(str(tmp_path), task="single", label_names=LABELS, seed=1).eval()
    states = again.base_model(**batch).last_hidden_state[:, 0]
    torch.testing.assert_close(again(**batch).logits, last_layer(again)(states))
    assert last_layer(again).weight.std().item() == pytest.approx(again.config.initializer_range, rel=0.3)


def test_a_choice_keeps_its_pooled_state_and_loses_dropout(encoders):
    model = AutoModelForMultipleChoice.from_pretrained(encoders("bert"))
    before = deepcopy(model.bert.pooler.state_dict())
    use_linear_head(model)
    assert (model.dropout.p, model.config.classifier_dropout) == (0.0, 0.0)
    assert all(torch.equal(value, before[name]) for name, value in model.bert.pooler.state_dict().items())


def test_a_head_with_another_activation_is_refused(encoders):
    model = load_classifier(str(encoders("electra")), task="single", label_names=LABELS, seed=0)
    with pytest.raises(UserError, match="ElectraForSequenceClassification cannot hold a linear head"):
        use_linear_head(model)


@pytest.mark.trains
@pytest.mark.parametrize(("family", "method"), [("bert", "cls-mixup"), ("roberta", "aum-saliency")])
def test_a_run_with_a_linear_head_is_a_standard_checkpoint(family, method, tiny, encoders, tmp_path):
    settings = tiny(
        tmp_path / "run", model=str(encoders(family)), method=method, model_options={"head": "linear"}
    )
    train_staged(settings)
    saved = AutoModelForSequenceClassification.from_pretrained(tmp_path / "run" / "model")
    dense = saved.bert.pooler.dense if family == "bert" else saved.classifier.dense
    assert torch.equal(dense.weight, EPSILON * torch.eye(dense.out_features))
    assert saved.config.classifier_dropout == 0.0
