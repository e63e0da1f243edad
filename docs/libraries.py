"""Real rows in six classes, for the tutorials: which library does this line of documentation belong to?

    python docs/libraries.py               train.csv, validation.csv, test.csv, new.csv and reviews.csv
    python docs/libraries.py --rows 60     fewer rows in each

A row is the first sentence of a docstring; its label is the library it documents. Six libraries come with
calmix itself, so nothing is downloaded. Their files are parsed, not imported. Sentences that name a library
of the six are left out, and so are those of fewer than five words. A sentence that two libraries share keeps
both labels: such rows exist in every real file, and `calmix train` points them out.

`new.csv` has no labels. `reviews.csv` holds sentences about films, which belong to no library:
out-of-domain data.
"""

from __future__ import annotations

import argparse
import ast
import csv
import re
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import numpy as np

LIBRARIES = {
    "matplotlib": "matplotlib",
    "networkx": "networkx",
    "numpy": "numpy",
    "pandas": "pandas",
    "scikit-learn": "sklearn",
    "scipy": "scipy",
}
"""The label, and the package that is imported under it."""
NAMES = re.compile(r"matplotlib|networkx|numpy|pandas|scikit|sklearn|scipy|\b(np|nx|pd|plt)\.", re.IGNORECASE)
LEAST_WORDS = 5
ROWS = {"train": 600, "validation": 300, "test": 500, "new": 100, "reviews": 200}


def first_sentence(docstring: str) -> str | None:
    """The first sentence of a docstring, without markup; None for what is not one or gives the label away.

    >>> first_sentence("Return the `n` largest\\n    elements.\\n\\n    Parameters\\n    ---------")
    'Return the n largest elements.'
    >>> first_sentence("Like numpy.take along an axis.") is None
    True
    """
    paragraph = " ".join(docstring.strip().split("\n\n")[0].split())
    paragraph = re.sub(r":\w+:`~?\.?([^`]*)`", r"\1", paragraph).replace("`", "").replace("*", "")
    ends = re.match(r"[A-Z].*?[a-z)]\.(?= |$)", paragraph)
    if ends is None or "---" in ends[0] or NAMES.search(ends[0]) or len(ends[0].split()) < LEAST_WORDS:
        return None
    return ends[0]


def docstrings(package: str) -> Iterator[str]:
    """Docstrings of the public functions and classes of a package; test files are passed over."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{package} is not installed: pip install 'calmix[demo]'")
    folder = Path(spec.origin).parent
    for file in sorted(folder.rglob("*.py")):
        if "test" in str(file.relative_to(folder)):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                found = ast.get_docstring(node, clean=False)
                if found:
                    yield found


def sentences(package: str, most: int | None = None) -> list[str]:
    """Different sentences of a package, in the order of its files; `most` of them, or all."""
    found = dict.fromkeys(islice(filter(None, map(first_sentence, docstrings(package))), most))
    return list(found)


def draw(sizes: dict[str, int], most: int | None = None, seed: int = 0) -> dict[str, list[tuple[str, str]]]:
    """(text, label) for every file; the classes keep their natural sizes."""
    found = [(text, label) for label, package in LIBRARIES.items() for text in sentences(package, most)]
    order = np.random.default_rng(seed).permutation(len(found))
    ends = np.cumsum(list(sizes.values()))
    if ends[-1] > len(found):
        raise SystemExit(f"the libraries hold {len(found)} sentences, not {ends[-1]}: take fewer --rows")
    parts = zip(sizes, np.split(order[: ends[-1]], ends[:-1]), strict=True)
    return {name: [found[position] for position in part] for name, part in parts}


def write(path: Path, header: list[str], rows: list[tuple[str, ...]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def main(arguments: list[str] | None = None) -> None:
    from calmix.data.embedded import movie_reviews
    from calmix.data.sampling import stratified_sample

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS["train"], help="of train.csv")
    parser.add_argument("--sentences", type=int, help="of each library that are drawn from; default: all")
    parser.add_argument("--output", type=Path, default=Path())
    given = parser.parse_args(arguments)
    given.output.mkdir(parents=True, exist_ok=True)

    sizes = {name: max(10, round(given.rows / ROWS["train"] * rows)) for name, rows in ROWS.items()}
    films = stratified_sample(movie_reviews().rotten_tomatoes, sizes.pop("reviews"), 0).texts()
    unlabelled = {"reviews": list(films)}
    for name, rows in draw(sizes, given.sentences).items():
        if name == "new":
            unlabelled[name] = [text for text, _ in rows]
        else:
            write(given.output / f"{name}.csv", ["text", "label"], rows)
    for name, texts in unlabelled.items():
        write(given.output / f"{name}.csv", ["text"], [(text,) for text in texts])


if __name__ == "__main__":
    main()
