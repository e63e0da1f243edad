"""Processor settings that save time without changing results."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from calmix.runtime.option_values import check_device_name
from calmix.runtime.processes import is_alone
from calmix.user_error import UserError, argument


def prepare_processor(threads: int | None = None) -> None:
    """Flush denormal numbers, which slow a CPU down many times, and use the cores this process may use.

    Another number of threads adds numbers in another order and gives other last bits: a run is repeatable
    for equal thread counts.
    """
    torch.set_flush_denormal(True)
    if threads is None and "OMP_NUM_THREADS" not in os.environ:
        threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if threads is not None:
        torch.set_num_threads(threads)


@contextmanager
def prepared_processor(threads: int | None = None) -> Iterator[None]:
    """`prepare_processor`, and back again at the end: the process may have other work to do, and denormal
    numbers are part of everybody else's arithmetic."""
    flushed, before = sys.float_info.min / 2 == 0.0, torch.get_num_threads()
    prepare_processor(threads)
    try:
        yield
    finally:
        torch.set_flush_denormal(flushed)
        torch.set_num_threads(before)


def place_in_group() -> tuple[int, int]:
    """Which of how many processes that work together this is; (0, 1) where it is alone."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


def wait_for_all_processes() -> None:
    if place_in_group()[1] > 1:
        torch.distributed.barrier()


def needs_process_group() -> bool:
    """Whether the run has several processes that have not found each other yet.

    They do when arguments of a Trainer are made. Asked first, since making them once more would take the
    group away from a Trainer that is already there.
    """
    return not is_alone() and not torch.distributed.is_initialized()


def broadcast_from_rank0(value: bool) -> bool:
    """What the first process says, on all of them."""
    if is_alone():
        return value
    shared = [value]
    torch.distributed.broadcast_object_list(shared, src=0)
    return shared[0]


def check_device(device: str) -> None:
    """A device that is known and there; which of several GPUs is chosen with CUDA_VISIBLE_DEVICES."""
    check_device_name(device)
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available.get(device, True):
        raise UserError(f"this machine has no {device} device", remedy=f"use {argument('device', 'auto')}")


def has_accelerator() -> bool:
    """Whether there is anything but CPUs to train on."""
    if hasattr(torch, "accelerator"):
        return bool(torch.accelerator.is_available())
    return torch.cuda.is_available() or torch.backends.mps.is_available()
