"""Runs the scripts beside this file in networks of `weir lab shell`, and `weir lab run telemetry`, and tells whether they agree.
Only Python's standard library is needed, and no root.

    python3 docs/examples/article/compare.py --weir target/release/weir

The scripts send for ever: this program kills a sender when its time is over, as somebody would by Ctrl-C, and its receiver when
the drain is. What is received in the sending window is compared as a share of what each has over UDP without loss: an
interpreter's sleep of 10 ms takes a little longer than the lab's. The delay is of all messages that were sent in the window and
received by the end of the drain, by both.
"""

import argparse
import concurrent.futures
import csv
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))

# Student's t for a two-sided 95 % interval, by degrees of freedom.
STUDENT = [0, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262]


def interval(values):
    """Mean and half width of the 95 % interval; of one value there is no width."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, math.nan
    freedom = min(len(values) - 1, len(STUDENT) - 1)
    return mean, STUDENT[freedom] * statistics.stdev(values) / math.sqrt(len(values))


def shell(weir, scenario, seed, loss, host, script):
    """A script on a host of the scenario's network."""
    command = [weir, "lab", "shell", "--set", f"path.loss={loss}%", "--set", f"run.seed={seed}", scenario, host]
    # A group of its own, so that a Ctrl-C for this program is not one for the scripts before it says so.
    return subprocess.Popen(
        command + [sys.executable, os.path.join(HERE, script)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
    )


def end(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def run_scripts(weir, folder, transport, loss, repeat, duration, drain):
    """Messages a second, and the mean delay in ms, of one pair of scripts."""
    name = f"article-{os.getpid()}-{transport}-{loss}-{repeat}"
    scenario = os.path.join(folder, name + ".toml")
    text = subprocess.run([weir, "lab", "show", "telemetry"], check=True, capture_output=True, text=True).stdout
    with open(scenario, "w") as file:
        # A network has the name of its scenario: each pair has one of its own.
        file.write(text.replace('name = "telemetry"', f'name = "{name}"', 1))
    receiver = shell(weir, scenario, repeat, loss, "receiver", f"{transport}_receiver.py")
    first = receiver.stdout.readline()
    assert first == "listening\n", f"{name}: the receiver said {first!r}"
    sender = shell(weir, scenario, repeat, loss, "sender", f"{transport}_sender.py")
    lines = []
    with concurrent.futures.ThreadPoolExecutor(1) as reader:
        reading = reader.submit(lambda: lines.extend(receiver.stdout))
        begun = time.monotonic()
        while not lines and time.monotonic() < begun + 30:
            time.sleep(0.005)
        # By the first message's own time the window began a little before.
        time.sleep(duration + 0.1)
        end(sender)
        time.sleep(drain)
        end(receiver)
        reading.result()
    received = [tuple(map(float, line.split())) for line in lines if line.count(" ") == 1 and line.endswith("\n")]
    start = min(at - delay for at, delay in received)
    in_window = sum(at < start + duration for at, _ in received)
    delays = [delay for at, delay in received if at - delay < start + duration]
    return in_window / duration, statistics.fmean(delays) * 1e3


def run_lab(weir, folder, losses, transports, repeats, duration, drain):
    """The same of `weir lab run telemetry`: (transport, loss) to lists of one value a repeat."""
    out = os.path.join(folder, "lab")
    settings = {
        "path.loss": ",".join(f"{loss}%" for loss in losses),
        "traffic.transport": ",".join(transports),
        "run.duration": f"{round(duration * 1e3)}ms",
        "run.drain": f"{round(drain * 1e3)}ms",
        # The same draws as the scripts' networks have: what a path loses first decides a lot of a TCP connection's fate.
        "run.seed": ",".join(str(seed) for seed in range(1, repeats + 1)),
        "run.repeat": "1",
        "run.control": "0s",
    }
    command = [weir, "lab", "run", "telemetry", "--out", out]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    found = {}
    with open(os.path.join(out, "cells.jsonl")) as file:
        records = sorted(map(json.loads, file), key=lambda record: int(dict(record["axes"]).get("run.seed", 1)))
        for row in (record["row"] for record in records):
            key = (row["transport"], round(row["loss_pct"]))
            found.setdefault(key, ([], []))
            found[key][0].append(row["msgs_per_s"])
            found[key][1].append((row["delay_mean_us"] or math.nan) / 1e3)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--weir", default="weir", help="the program (default: the one in PATH)")
    parser.add_argument("--loss", default="0,10,14,20", help="losses of the path, one way, in percent")
    parser.add_argument("--transport", default="udp,tcp")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--duration", type=float, default=40, help="seconds of sending")
    parser.add_argument("--drain", type=float, default=10, help="seconds of receiving behind it")
    parser.add_argument("--values", action="store_true", help="print the value of each repeat, too")
    parser.add_argument("--jobs", type=int, default=10, help="pairs of scripts at once")
    options = parser.parse_args()
    # What everything is compared with.
    losses, transports = [int(loss) for loss in options.loss.split(",")], options.transport.split(",")
    if 0 not in losses or "udp" not in transports:
        parser.error("--loss needs 0 and --transport udp: the rest is a share of that")
    with tempfile.TemporaryDirectory() as folder:
        cells = [(t, loss, n) for n in range(1, options.repeats + 1) for t in transports for loss in losses]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            run = lambda cell: run_scripts(options.weir, folder, *cell, options.duration, options.drain)
            results = list(pool.map(run, cells))
        scripts = {}
        for (transport, loss, _), (rate, delay) in zip(cells, results):
            scripts.setdefault((transport, loss), ([], []))
            scripts[transport, loss][0].append(rate)
            scripts[transport, loss][1].append(delay)
        lab = run_lab(options.weir, folder, losses, transports, options.repeats, options.duration, options.drain)
    whole = [statistics.fmean(of["udp", 0][0]) for of in (scripts, lab)]
    print(f"{options.repeats} repeats of {options.duration:g} s; the mean and its 95 % interval")
    print(f"over UDP without loss, which is 100 %: scripts {whole[0]:.4g} messages/s, lab {whole[1]:.4g}")
    for of, all_of_it in zip((scripts, lab), whole):
        for rates, _ in of.values():
            rates[:] = [rate / all_of_it * 100 for rate in rates]
    print("transport,loss_pct,scripts_received_pct,lab_received_pct,agree,scripts_delay_ms,lab_delay_ms,agree")
    table, apart = csv.writer(sys.stdout), 0
    for key in sorted(scripts):
        fields = list(key)
        for of_scripts, of_lab, floor in zip(scripts[key], lab[key], (LEAST_PCT, FLOOR_MS)):
            (a, a_half), (b, b_half) = interval(of_scripts), interval(of_lab)
            # A width of nothing says that repeats are alike, not that the clocks of two programs are.
            agree = not abs(a - b) > a_half + b_half + floor
            apart += not agree
            fields += [f"{a:.4g} +- {a_half:.2g}", f"{b:.4g} +- {b_half:.2g}", "yes" if agree else "NO"]
        table.writerow(fields)
        if options.values:
            for name, values in (("scripts", scripts[key]), ("lab", lab[key])):
                print(f"  {name}: " + ", ".join(f"{rate:.4g} % {delay:.4g} ms" for rate, delay in zip(*values)))
    return 1 if apart else 0


# Differences that mean nothing: one in a hundred messages, and what an interpreter adds to a delay on a busy machine, ms.
LEAST_PCT = 1
FLOOR_MS = 1

sys.exit(main())
