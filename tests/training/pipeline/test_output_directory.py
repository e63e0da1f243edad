"""Where a run may be written."""

import multiprocessing

import pytest

from calmix.io.replacing import fresh_name
from calmix.io.run_directory import RunDirectory
from calmix.training.configuration import TrainConfig
from calmix.training.pipeline.output_directory import check_output
from calmix.user_error import UserError


def leave_half_of_a_file(place):
    fresh_name(place).write_text("half")


@pytest.mark.processes
def test_half_of_the_first_file_of_a_killed_run_is_removed(tmp_path):
    run, config = RunDirectory(tmp_path), TrainConfig(train="train.csv", output=str(tmp_path))
    killed = multiprocessing.get_context("spawn").Process(
        target=leave_half_of_a_file, args=(run.config_file,)
    )
    killed.start()
    killed.join()
    assert len(list(tmp_path.iterdir())) == 1
    check_output(run, config, resume=False)
    assert list(tmp_path.iterdir()) == []


def test_files_of_somebody_else_are_not_written_over(tmp_path):
    run, config = RunDirectory(tmp_path), TrainConfig(train="train.csv", output=str(tmp_path))
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(UserError, match="not empty and holds no run"):
        check_output(run, config, resume=False)
    assert (tmp_path / "thesis.txt").read_text() == "precious"
