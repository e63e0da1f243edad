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


def test_the_next_step_states_the_share_that_was_kept():
    result = detection_record(spread=3.0)
    result["rejection"]["keep"] = 0.8
    assert "one that keeps 80 % of in-domain rows" in next_step(result)[0]
