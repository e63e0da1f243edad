"""The next step on `ood.html` follows from what its threshold rejects."""

from calmix.report.ood.ood_report import next_step
from recorded_results import detection_record


def test_a_threshold_that_rejects_the_other_data_is_recommended():
    result = detection_record(spread=0.1)
    assert result["rejection"]["rejected"]["letters"] > 0.5
    text, command = next_step(result)
    assert text.startswith("Send rows that look out of domain to a human")
    assert command.endswith("--reject-ood")


def test_a_threshold_that_rejects_little_is_not():
    result = detection_record(spread=3.0)
    share = result["rejection"]["rejected"]["letters"]
    text, command = next_step(result)
    assert share < 0.2
    assert text.startswith("Do not rely on a threshold") and f"rejects only {100 * share:.0f} % of" in text
    assert command == ""
