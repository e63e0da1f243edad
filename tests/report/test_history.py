from __future__ import annotations

from calmix.report.history import error_figure, history_figure, history_table


def test_lines_and_ring_show_the_recorded_numbers(finished):
    history = finished.metrics()["history"]
    drawn = {trace["name"]: trace for trace in history_figure(history).to_dict()["data"]}
    assert drawn["training loss"]["y"] == [entry["train_loss"] for entry in history]
    assert drawn["validation NLL"]["y"] == [entry["validation_nll"] for entry in history]
    assert (drawn["kept"]["x"], drawn["kept"]["y"]) == ([2], [0.5])


def test_the_table_marks_the_kept_epoch(finished):
    assert history_table(finished.metrics()["history"]).rows == (
        ("1", "1.0000", "0.6100", "0.6000", "1.100", "70.0", "1.00", "–"),
        ("2", "0.5000", "0.6200", "0.5000", "1.200", "70.0", "2.00", "kept"),
        ("3", "0.3333", "0.6300", "0.6000", "1.300", "70.0", "3.00", "–"),
    )


def test_the_calibration_error_of_every_epoch_stands_beside_the_error_rate(finished):
    ece, wrong = error_figure(finished.metrics()["history"]).data
    assert (ece.name, ece.y) == ("validation ECE", (1.0, 2.0, 3.0))
    assert [round(value, 6) for value in wrong.y] == [30.0] * 3


def test_a_loss_that_was_not_recorded_is_a_gap_not_a_zero():
    history = [{"epoch": 1, "validation_nll": 0.5, "validation_nll_calibrated": 0.4}]
    assert history_figure(history).data[0].y == (None,)
    assert history_table(history).rows[0][1] == "–"
