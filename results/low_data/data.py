"""Writes the files of this comparison into `movie/`: 2,000 sentences to draw 32 from, and the test sets."""

from pathlib import Path

from calmix.experiments import demo

demo.TRAIN_ROWS, demo.VALIDATION_ROWS, demo.TEST_ROWS, demo.OTHER_ROWS = 2000, 500, 400, 200
demo.write_demo_data(Path("movie"))
