"""What this machine's cores allow: the hard work of a trial in one process and in two, alone."""

from __future__ import annotations

from multiprocessing import get_context
from multiprocessing.connection import Connection
from time import perf_counter

from nearcast.experiments.flows.trial_processors import grind

__all__ = ["core_ratio", "grinds_per_s"]


def core_ratio(rounds: int, seconds: float = 2.0) -> float:
    """Return how much more two processes do than one, which have nothing to do with each other.

    No scale-out to a second process on this machine can bring more. It is less than 2 where cores
    share their units, or where the host of a virtual machine gives time to others.
    """
    return grinds_per_s(2, rounds, seconds) / grinds_per_s(1, rounds, seconds)


def grinds_per_s(processes: int, rounds: int, seconds: float) -> float:
    """Return how many messages processes grind per second at the same time, without messaging."""
    context = get_context("spawn")
    pipes: list[Connection] = []
    workers = []
    try:
        for _ in range(processes):
            mine, theirs = context.Pipe()
            worker = context.Process(target=_work, args=(theirs, rounds, seconds), daemon=True)
            worker.start()
            theirs.close()  # so that the end of a worker is seen here
            pipes.append(mine)
            workers.append(worker)
        for pipe in pipes:
            pipe.recv()  # it has started
        for pipe in pipes:
            pipe.send(None)
        return float(sum(pipe.recv() for pipe in pipes))
    finally:
        for worker in workers:
            worker.kill()
            worker.join()
        for pipe in pipes:
            pipe.close()


def _work(pipe: Connection, rounds: int, seconds: float) -> None:
    pipe.send(None)
    pipe.recv()
    done, began_s = 0, perf_counter()
    while (passed_s := perf_counter() - began_s) < seconds:
        grind(b"", rounds)
        done += 1
    pipe.send(done / passed_s)
