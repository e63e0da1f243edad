from __future__ import annotations

from calmix.report.run.history import error_chart, history_chart, history_table, regime


def test_marks_and_ring_show_the_recorded_numbers(finished, drawn):
    history = finished.metrics()["history"]
    drawing = drawn(history_chart(history, "c"))
    titles = [one["title"] for shape in ("circle", "square", "ring") for one in drawing.shapes(shape)]
    for entry in history:
        assert f"epoch {entry['epoch']}: training loss {entry['train_loss']:.4f}" in titles
        assert f"epoch {entry['epoch']}: validation NLL {entry['validation_nll']:.4f}" in titles
    (ring,) = drawing.shapes("ring")
    assert ring["title"] == "epoch 2 was kept"
    kept = [one for one in drawing.shapes("diamond") if (one["x"], one["y"]) == (ring["x"], ring["y"])]
    assert "epoch 2: validation NLL, calibrated 0.5000" in [one["title"] for one in kept]


def test_the_table_marks_the_kept_epoch(finished):
    assert history_table(finished.metrics()["history"]).rows == (
        ("1", "1.0000", "0.6100", "0.6000", "1.100", "70.0", "1.00", "–"),
        ("2", "0.5000", "0.6200", "0.5000", "1.200", "70.0", "2.00", "kept"),
        ("3", "0.3333", "0.6300", "0.6000", "1.300", "70.0", "3.00", "–"),
    )


def test_the_calibration_error_of_every_epoch_stands_beside_the_error_rate(finished, drawn):
    drawing = drawn(error_chart(finished.metrics()["history"], "c"))
    assert [one["title"] for one in drawing.shapes("circle")] == [
        f"epoch {epoch}: validation ECE {epoch}.00 %" for epoch in (1, 2, 3)
    ]
    assert {one["title"].split(": ")[1] for one in drawing.shapes("square")} == {
        "validation error rate 30.00 %"
    }


def test_a_loss_that_was_not_recorded_is_a_gap_not_a_zero(drawn):
    history = [{"epoch": 1, "validation_nll": 0.5, "validation_nll_calibrated": 0.4}]
    assert drawn(history_chart(history, "c")).shapes("circle") == []
    assert history_table(history).rows[0][1] == "–"


def test_the_regime_is_read_from_the_raw_validation_loss():
    def run(*losses):
        return regime([{"epoch": n, "validation_nll": loss} for n, loss in enumerate(losses, 1)])

    assert run(0.6, 0.5, 0.7).startswith("Over-trained by the last epoch: the validation NLL was lowest in")
    assert run(0.9, 0.7, 0.6).startswith("Perhaps undertrained")
    assert run(0.9, 0.5, 0.505) == "Trained to the end: the validation NLL levelled off at 0.505."
    assert run(0.9) == ""
