"""Where the runs of a comparison are made: in processes of this machine, in this process, or as Ray tasks.

All hand the same `run_cell` the same values, so that equal threads per run give equal bits.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from calmix.experiments.cell import Outcome, Task, run_cell
from calmix.training.pipeline.run_store import one_line
from calmix.user_error import UserError, argument

EXECUTORS = ("local", "ray", "inline")
SECONDS_BETWEEN_LOOKS = 0.5
DIED = "the process died without a message: killed from outside, or out of memory"


class Executor(Protocol):
    """Runs up to `capacity` cells at a time."""

    capacity: int

    def submit(self, task: Task) -> Future[Outcome]: ...

    def collect(self, future: Future[Outcome]) -> Outcome:
        """The outcome of a future that is done; a process that died is an outcome too."""
        ...

    def close(self) -> None:
        """End what still runs."""
        ...


def run_all(
    executor: Executor,
    tasks: Sequence[Task],
    *,
    started: Callable[[Task], None],
    looked: Callable[[], None],
) -> Iterator[tuple[Task, Outcome]]:
    """Run tasks in their order, as many at a time as the executor can; give each as it ends.

    `started` is told of every task, `looked` is called about twice a second.
    """
    waiting, running = deque(tasks), dict[Future[Outcome], Task]()
    try:
        while waiting or running:
            while waiting and len(running) < executor.capacity:
                task = waiting.popleft()
                running[executor.submit(task)] = task
                started(task)
            done, _ = wait(running, timeout=SECONDS_BETWEEN_LOOKS, return_when=FIRST_COMPLETED)
            for future in done:
                yield running.pop(future), executor.collect(future)
            looked()
    finally:
        executor.close()


class LocalExecutor:
    """Worker processes of this machine, one pool of one process each: when a process dies, it is known which
    cell it was at, and the others go on."""

    def __init__(self, workers: int) -> None:
        self.capacity = workers
        self.idle: list[Worker] = []
        self.busy: dict[Future[Outcome], Worker] = {}

    def submit(self, task: Task) -> Future[Outcome]:
        worker = self.idle.pop() if self.idle else Worker(self._free_place())
        try:
            future = worker.pool.submit(run_cell, task)
        except BrokenProcessPool:  # killed while it had nothing to do
            worker.close()
            return self.submit(task)
        self.busy[future] = worker
        return future

    def collect(self, future: Future[Outcome]) -> Outcome:
        worker = self.busy.pop(future)
        try:
            outcome = future.result()
        except BrokenProcessPool:
            worker.close()
            return Outcome(0.0, DIED)
        self.idle.append(worker)
        return outcome

    def close(self) -> None:
        for worker in [*self.idle, *self.busy.values()]:
            worker.close()
        self.idle, self.busy = [], {}

    def _free_place(self) -> int:
        taken = {worker.place for worker in self.busy.values()}
        return next(place for place in range(self.capacity) if place not in taken)


class InlineExecutor:
    """One run after the other in this process: nothing to start, for runs of a second."""

    capacity = 1

    def submit(self, task: Task) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        future.set_result(run_cell(task))
        return future

    def collect(self, future: Future[Outcome]) -> Outcome:
        return future.result()

    def close(self) -> None:
        """Nothing runs."""


class Worker:
    """One process that runs one cell after the other. It is spawned, since torch does not survive a fork."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.pool = ProcessPoolExecutor(
            1, mp_context=multiprocessing.get_context("spawn"), initializer=begin_worker, initargs=(place,)
        )
        self.process = self.pool.submit(os.getpid)

    def close(self) -> None:
        with suppress(BrokenProcessPool, ProcessLookupError):
            os.kill(self.process.result(), signal.SIGTERM)
        self.pool.shutdown(wait=True, cancel_futures=True)


def begin_worker(place: int) -> None:
    """Settings of a worker process: it dies with its parent, and has a graphics card of its own if it can."""
    # Ctrl-C reaches all processes of a terminal; the parent decides what becomes of the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    import torch

    cards = os.environ.get("CUDA_VISIBLE_DEVICES")
    visible = cards.split(",") if cards else [str(card) for card in range(torch.cuda.device_count())]
    if visible:
        # One card each: transformers would spread a single run over all of them.
        os.environ["CUDA_VISIBLE_DEVICES"] = visible[place % len(visible)]


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class RayExecutor:
    """Tasks of the Ray cluster of `RAY_ADDRESS` (`auto`: the one that runs here), else of a local one.

    On several machines, calmix must be installed on each and the output directory lie on a file system that
    they share.
    """

    def __init__(self, workers: int | None, threads: int, *, uses_gpu: bool) -> None:
        self.ray = connect(workers=workers or 1, threads=threads)
        resources = self.ray.cluster_resources()
        room = int(resources.get("CPU", 0)) // threads
        if not room:
            self.ray.shutdown()
            raise UserError(
                f"the Ray cluster has {resources.get('CPU', 0):g} processors, and a run asks for {threads}",
                remedy=f"give fewer {argument('threads')}",
            )
        self.capacity = workers or room
        cards = 1 if uses_gpu and resources.get("GPU") else 0
        # A cell that was lost with its machine goes on elsewhere from its last checkpoint.
        self.task: Any = self.ray.remote(num_cpus=threads, num_gpus=cards, max_retries=1)(run_cell)
        self.references: dict[Future[Outcome], Any] = {}

    def submit(self, task: Task) -> Future[Outcome]:
        reference = self.task.remote(task)
        future: Future[Outcome] = reference.future()
        self.references[future] = reference
        return future

    def collect(self, future: Future[Outcome]) -> Outcome:
        del self.references[future]
        error = future.exception()
        return future.result() if error is None else Outcome(0.0, f"{DIED} ({one_line(error)[:200]})")

    def close(self) -> None:
        for reference in self.references.values():
            self.ray.cancel(reference, force=True)
        self.references = {}
        self.ray.shutdown()


def connect(*, workers: int, threads: int) -> Any:
    """Ray, connected to the cluster of `RAY_ADDRESS`, or to a new one of this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Without it Ray hides the graphics cards from tasks that ask for none, and says so at length.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise UserError(
            f"{argument('executor', 'ray')} needs Ray, which is not installed",
            remedy="pip install 'calmix[ray]'",
        ) from None
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    address = os.environ.get("RAY_ADDRESS")
    if not address:
        with signal_handler_kept(signal.SIGTERM):
            # Not the cluster that happens to be there: it may belong to a program that ends before this one.
            ray.init(address="local", num_cpus=workers * threads, include_dashboard=False, **settings)
        return ray
    try:
        check_answers(address)
    except OSError as error:
        raise UserError(
            f"no Ray cluster at RAY_ADDRESS={address}",
            remedy="start it with 'ray start --head', or unset RAY_ADDRESS for a local one",
        ) from error
    try:
        with signal_handler_kept(signal.SIGTERM):
            ray.init(address=address, **settings)
    except (OSError, RuntimeError) as error:
        reason = one_line(error)[:160]
        raise UserError(
            f"the Ray cluster at RAY_ADDRESS={address} does not take the connection ({reason})",
            remedy="check that Ray has the same version and the same authentication token there and here",
        ) from error
    return ray


@contextmanager
def signal_handler_kept(number: signal.Signals) -> Iterator[None]:
    """Set the handler of a signal again at the end: Ray sets one of its own, which exits with the number of
    the signal and without a word. A signal that meets it meanwhile goes to the handler that was there."""
    handler = signal.getsignal(number)
    is_main = threading.current_thread() is threading.main_thread()
    try:
        yield
    except SystemExit as left:
        if left.code == number and callable(handler):
            signal.signal(number, handler)
            handler(number, None)
        raise
    finally:
        if handler is not None and is_main:
            signal.signal(number, handler)


def check_answers(address: str) -> None:
    """Raise OSError where nobody listens; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=10).close()


def make_executor(name: str, workers: int | None, threads: int, *, device: str) -> Executor:
    """The executor that an option names."""
    if name == "ray":
        return RayExecutor(workers, threads, uses_gpu=device != "cpu")
    if name == "local":
        return LocalExecutor(workers or 1)
    if name == "inline":
        return InlineExecutor()
    raise UserError(f"{argument('executor')} is {name!r}", remedy=f"choose one of {', '.join(EXECUTORS)}")


def threads_per_worker(workers: int) -> int:
    """The cores this process may use, divided among the workers."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdecimal() and int(given):
        return int(given)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(cores // workers, 1)
