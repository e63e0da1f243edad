"""The text CNN against a loop over windows, and its words, vectors and tokenizer."""

import gzip

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

from calmix import register_networks
from calmix.data.rows import Rows
from calmix.models.built_in import check_options
from calmix.models.folding import fold_temperature
from calmix.models.mix_points import MixPoints
from calmix.models.networks.text_cnn import TextCnnConfig, TextCnnForSequenceClassification
from calmix.models.text_cnn_building import build_text_cnn, count_words
from calmix.models.word_vectors import embedded_vectors, read_vectors
from calmix.user_error import UserError

CLASSES = 3


def small(**more):
    torch.manual_seed(0)
    return TextCnnForSequenceClassification(
        TextCnnConfig(vocab_size=20, embedding_size=6, maps=4, num_labels=CLASSES, **more)
    )


def reference(model, words):
    """Kim's network for one text of word vectors [n, d]: explicit windows, no convolution."""
    margin = 4
    padded = torch.cat([torch.zeros(margin, words.shape[1]), words, torch.zeros(margin, words.shape[1])])
    features = []
    for width in (3, 4, 5):
        convolution = model.convolutions[f"width_{width}"]
        for number in range(model.config.maps):
            kernel, bias = convolution.weight[number], convolution.bias[number]
            answers = [
                torch.relu((kernel.T * padded[start : start + width]).sum() + bias)
                for start in range(len(padded) - width + 1)
            ]
            features.append(torch.stack(answers).max())
    return model.classifier.weight @ torch.stack(features) + model.classifier.bias


def texts(lengths, seed=0):
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(1, 20, (length,), generator=generator) for length in lengths]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
    return rows, {"input_ids": ids, "attention_mask": mask}


def test_the_forward_pass_is_the_loop_over_windows_whatever_the_batch():
    model = small().eval()
    rows, batch = texts([1, 7, 3, 12])
    expected = torch.stack([reference(model, model.embeddings(row)) for row in rows])
    assert torch.allclose(model(**batch).logits, expected, atol=1e-5)
    alone = torch.cat([model(input_ids=row[None]).logits for row in rows])
    assert torch.allclose(alone, expected, atol=1e-5)
    by_vectors = model(
        inputs_embeds=model.embeddings(batch["input_ids"]), attention_mask=batch["attention_mask"]
    )
    assert torch.equal(by_vectors.logits, model(**batch).logits)


def test_padding_of_the_batch_wins_no_maximum():
    model = small().eval()
    with torch.no_grad():
        for convolution in model.convolutions.values():
            convolution.bias.fill_(0.5)  # an empty window answers 0.5
    rows, batch = texts([2, 30])
    expected = torch.stack([reference(model, model.embeddings(row)) for row in rows])
    assert torch.allclose(model(**batch).logits, expected, atol=1e-5)


def test_words_are_mixed_as_padded_vectors():
    """Mixing at the embeddings is convolving the mixture of the zero-padded word vectors."""
    model = small().eval()
    rows, batch = texts([2, 6])
    batch["attention_mask"] = torch.ones(2, 6, dtype=torch.long)  # both as long as their pair
    partner = torch.tensor([1, 0])
    cut = MixPoints(model).hook(0, lambda words: 0.3 * words + 0.7 * words[partner], batch)
    given = model(**batch).logits
    cut.remove()
    vectors = [torch.cat([model.embeddings(row), torch.zeros(6 - len(row), 6)]) for row in rows]
    expected = torch.stack([reference(model, 0.3 * vectors[i] + 0.7 * vectors[1 - i]) for i in range(2)])
    assert torch.allclose(given, expected, atol=1e-5)
    assert MixPoints(model).describe() == "0 (embeddings), 1 (head)"


def test_output_weights_are_scaled_back_to_the_cap_and_no_further():
    model = small()
    with torch.no_grad():
        model.classifier.weight.normal_()
        model.classifier.weight[0] *= 10 / model.classifier.weight[0].norm()
        model.classifier.weight[1] *= 2.5 / model.classifier.weight[1].norm()
    before = model.classifier.weight.detach().clone()
    model.cap_output_norms()
    assert torch.allclose(model.classifier.weight[0], before[0] * 0.3, atol=1e-6)
    assert torch.equal(model.classifier.weight[1], before[1])
    uncapped = small(row_norm_cap=None)
    weight = uncapped.classifier.weight.detach().clone().mul_(100)
    uncapped.classifier.weight.data.mul_(100)
    uncapped.cap_output_norms()
    assert torch.equal(uncapped.classifier.weight, weight)


def rows_of(*sentences):
    return Rows.from_columns(
        [str(i) for i in range(len(sentences))], list(sentences), labels=np.arange(len(sentences)) % 2,
        label_names=("bad", "good"),
    )  # fmt: skip


def build(rows, **options):
    return build_text_cnn(rows, rows.label_names, seed=3, max_length=20, options=options)


def vectors_file(path, header=False):
    lines = ["film 1 2 3", "the -1 0.5 2", "n't 0 0 1", "unseen 9 9 9"]
    path.write_text("\n".join(["4 3"] * header + lines) + "\n")
    return path


@pytest.mark.parametrize("header", [False, True], ids=["glove", "word2vec"])
def test_words_begin_with_their_vectors(tmp_path, header):
    rows = rows_of("The film wasn't odd odd", "the film, rare")
    model, inputs = build(rows, vectors=str(vectors_file(tmp_path / "v.txt", header)))
    tokenizer = inputs.tokenizer
    table = model.get_input_embeddings().weight.detach()
    place = tokenizer.convert_tokens_to_ids
    assert table[place("film")].tolist() == [1, 2, 3]
    assert table[place("n't")].tolist() == [0, 0, 1]
    assert table[tokenizer.pad_token_id].tolist() == [0, 0, 0]
    # "odd" occurs twice and gets numbers of the same variance; "rare" and "," stand once: unknown.
    known = np.array([[1, 2, 3], [-1, 0.5, 2], [0, 0, 1]])
    assert 0 < table[place("odd")].abs().max() <= np.sqrt(3) * known.std()
    unknown = tokenizer.unk_token_id
    assert place("rare") == place(",") == place("unseen") == unknown
    assert tokenizer("The film, rare")["input_ids"] == [place("the"), place("film"), unknown, unknown]
    assert model.config.embedding_size == 3


def test_a_gzipped_file_gives_the_same_vectors(tmp_path):
    plain = vectors_file(tmp_path / "v.txt")
    packed = tmp_path / "v.txt.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    first, second = (read_vectors(file, ["film", "none"])[0] for file in (plain, packed))
    assert first.keys() == second.keys() == {"film"}
    assert np.array_equal(first["film"], second["film"])


def test_the_embedded_vectors_know_english():
    words, dimensions = read_vectors(embedded_vectors(), ["king", "queen", "man", "woman", "carrot", "qqqqq"])
    assert dimensions == 50
    assert "qqqqq" not in words

    def near(first, second):
        return first @ second / np.linalg.norm(first) / np.linalg.norm(second)

    analogy = words["king"] - words["man"] + words["woman"]
    assert near(analogy, words["queen"]) > 0.85 > near(analogy, words["carrot"])


def test_words_are_cut_as_glove_s_were():
    counts = count_words(["It isn't Bob's; we'll see", "co-star"])
    assert set(counts) == {"it", "is", "n't", "bob", "'s", ";", "we", "'ll", "see", "co", "-", "star"}


def test_it_saves_and_loads_with_its_tokenizer_and_temperature(tmp_path):
    register_networks()
    rows = rows_of("the film was great great", "the film was dull dull dull", "great", "dull")
    model, inputs = build(rows, vectors="random", maps=7, dropout=0.4)
    model.eval()
    fold_temperature(model, 2.0)
    model.save_pretrained(tmp_path)
    inputs.save(tmp_path)
    again = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer.model_max_length == 20
    assert (again.config.maps, again.config.dropout) == (7, 0.4)
    batch = tokenizer(["a great Film", "dull"], padding=True, return_tensors="pt")
    assert set(batch) == {"input_ids", "attention_mask"}
    with torch.no_grad():
        assert torch.equal(again(**batch).logits, model(**batch).logits)
    scores = pipeline("text-classification", model=again, tokenizer=tokenizer)
    with torch.no_grad():
        expected = model(**tokenizer("great", return_tensors="pt")).logits.softmax(-1).max().item()
    assert scores("great")[0]["score"] == pytest.approx(expected, abs=1e-6)


def test_the_same_seed_gives_the_same_network():
    rows = rows_of("good good", "bad bad")
    first, again = (build(rows, vectors="random")[0].state_dict() for _ in range(2))
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_what_is_wrong_with_vectors_is_said(tmp_path):
    rows = rows_of("the film", "the plot")
    broken = tmp_path / "broken.txt"
    broken.write_text("the 1 2 3\nfilm 1 2\n")
    with pytest.raises(UserError, match=r"broken\.txt, row 2: not a word and 3 numbers"):
        build(rows, vectors=str(broken))
    strange = tmp_path / "strange.txt"
    strange.write_text("der 1 2 3\n")
    with pytest.raises(UserError, match="no word of the training rows has a vector"):
        build(rows, vectors=str(strange))
    with pytest.raises(UserError, match="cannot be read as word vectors"):
        build(rows, vectors=str(tmp_path / "gone.txt"))
    choice = Rows.from_columns(["a"], ["x"], choices=[["p", "q"]], labels=[0], label_names="01")
    with pytest.raises(UserError, match="no multiple-choice head"):
        build(choice)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("widths", 5, "widths=5; give a list of whole numbers"),
        ("widths", [], "widths="),
        ("widths", [3, 0], "widths="),
        ("widths", ["3"], "widths="),
        ("row_norm_cap", "many", "row_norm_cap=many; give a number above 0, or none for no cap"),
        ("row_norm_cap", 0, "row_norm_cap=0"),
        ("row_norm_cap", -1, "row_norm_cap=-1"),
        ("maps", 2.5, "maps=2.5; give a whole number of at least 1"),
        ("dropout", [0.5], "dropout="),
    ],
)
def test_options_that_cannot_be_are_refused(option, value, said):
    with pytest.raises(UserError) as error:
        check_options("text-cnn", {option: value})
    assert f"--model-option {said}" in error.value.on_command_line


@pytest.mark.parametrize("value", [None, "none"])
def test_the_cap_can_be_switched_off(value):
    check_options("text-cnn", {"row_norm_cap": value, "widths": [2], "maps": 3, "dropout": 0})
    model, _ = build(rows_of("good good", "bad bad"), vectors="random", row_norm_cap=value)
    assert model.config.row_norm_cap is None
