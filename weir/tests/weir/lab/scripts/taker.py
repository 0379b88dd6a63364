#!/usr/bin/env python3
"""Takes each processor for a while at drawn instants, before everybody else (SCHED_FIFO), and says when it did.

    taker.py SEED SHARE LENGTH_MS SECONDS

One process a processor, all of one process group, each taking SHARE of the time in pieces of LENGTH_MS. Prints `ready`, then after each piece
a line `PROCESSOR START_NS END_NS RESUMED_NS` of CLOCK_MONOTONIC. The machine may stand still by itself: a piece begins when it does not, and by
RESUMED_NS somebody else has run. Ends by itself.
"""
import os
import random
import sys
import time

MS = 1_000_000


def look():
    """Lets others run for 1 ms; whether that took no longer."""
    due = time.monotonic_ns() + MS
    time.sleep(0.001)
    return time.monotonic_ns() < due + MS // 2


def take(processor, seed, share, length_ns, seconds):
    os.sched_setaffinity(0, {processor})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(60))
    draw = random.Random(seed * 1000 + processor)
    now = time.monotonic_ns
    end = now() + int(seconds * 1e9)
    period = length_ns / share
    at = now() + draw.uniform(0.2, 1.0) * period
    while at + length_ns < end:
        time.sleep(max(0, at - now()) / 1e9)
        while not look() and now() < end:
            pass
        start = now()
        until = start + length_ns
        while now() < until:
            pass
        taken = now()
        look()
        os.write(1, f"{processor} {start} {taken} {now()}\n".encode())
        # At least as much time between as it takes: the kernel holds back who takes more.
        at = taken + max(length_ns, draw.uniform(0.3, 1.7) * period - length_ns)


def main():
    seed, share, length_ms, seconds = int(sys.argv[1]), *map(float, sys.argv[2:5])
    print("ready", flush=True)
    for processor in sorted(os.sched_getaffinity(0)):
        if os.fork() == 0:
            take(processor, seed, share, int(length_ms * MS), seconds)
            os._exit(0)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


main()
