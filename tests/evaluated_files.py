"""Predictions files and runs as `calmix evaluate --json` reports them."""

from calmix.workflows.evaluate import evaluate


def evaluate_files(paths, **options):
    return evaluate(*paths, **options).as_dict()
