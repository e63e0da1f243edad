"""What a comparison says about itself while it runs."""

from calmix.experiments.progress import CellProgress, last_line


def test_lines_count_the_runs_and_estimate_the_rest(capsys, tmp_path):
    progress = CellProgress(total=6, finished=2, workers=2, past_seconds=[100.0, 140.0])
    progress.start("a", "plain, seed 0", tmp_path / "a.log")
    progress.end("a", seconds=120.0, reason=None)
    progress.start("b", "mix, seed 0", tmp_path / "b.log")
    progress.end("b", seconds=3.0, reason="out of memory")
    progress.close()
    captured = capsys.readouterr()
    assert captured.out == ""
    # The median is 120 s; three runs are left for two workers. A run that failed says nothing about the rest.
    assert captured.err.splitlines() == [
        "[3/6] plain, seed 0: done in 2 min; about 3 min left",
        "[4/6] mix, seed 0: FAILED: out of memory; about 2 min left",
    ]


def test_the_last_words_of_a_log(tmp_path):
    log = tmp_path / "run.log"
    assert last_line(log) == "starting"
    log.write_text("x" * 5000 + "\nplain: step 3 of 9\nplain: epoch 1, validation accuracy 60.4%\n")
    assert last_line(log) == "epoch 1, validation accuracy 60.4%"
