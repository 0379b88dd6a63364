#!/usr/bin/env python3
"""Takes each processor for a while at drawn instants, before everybody else (SCHED_FIFO), and says when it did.

    taker.py SEED SHARE LENGTH_MS SECONDS

One process a processor, all of one process group, each taking SHARE of the time in pieces of LENGTH_MS. Prints `ready`, then at the end a line
`PROCESSOR START_NS END_NS` of CLOCK_MONOTONIC for each piece. Ends by itself.
"""
import os
import random
import sys
import time


def take(processor, seed, share, length_ns, seconds):
    os.sched_setaffinity(0, {processor})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(60))
    draw = random.Random(seed * 1000 + processor)
    now = time.monotonic_ns
    end, taken = now() + int(seconds * 1e9), []
    period = length_ns / share
    at = now() + draw.uniform(0.2, 1.0) * period
    while at + length_ns < end:
        time.sleep(max(0, at - now()) / 1e9)
        start = now()
        until = start + length_ns
        while now() < until:
            pass
        taken.append((processor, start, now()))
        # At least as much time between as it takes: the kernel holds back who takes more.
        at = taken[-1][2] + max(length_ns, draw.uniform(0.3, 1.7) * period - length_ns)
    return taken


def main():
    seed, share, length_ms, seconds = int(sys.argv[1]), *map(float, sys.argv[2:5])
    children = []
    for processor in sorted(os.sched_getaffinity(0)):
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.close(reader)
            taken = take(processor, seed, share, int(length_ms * 1e6), seconds)
            with os.fdopen(writer, "w") as out:
                out.writelines(f"{processor} {start} {end}\n" for processor, start, end in taken)
            os._exit(0)
        os.close(writer)
        children.append(reader)
    print("ready", flush=True)
    for reader in children:
        with os.fdopen(reader) as taken:
            sys.stdout.write(taken.read())


main()
