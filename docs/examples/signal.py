#!/usr/bin/env python3
"""Prints channels, samples and gaps of a group of `weir monitor` (docs/signal.md): signal.py [GROUP [PORT [INTERFACE]]]"""
import struct, sys, time
from contextlib import suppress
from socket import *

GROUP, PORT, INTERFACE = (sys.argv[1:] + ["239.192.77.1", "5110", ""][len(sys.argv) - 1:])[:3]
CAUSES = dict(enumerate("unknown source unselected station network host socket server viewer restart".split()))
due, names, early = {}, {}, {}  # by session and channel: the next index, the name, blocks by their index

def settle(key, index):
    """Prints in order what is there up to the index; what is neither there nor told to be missing was lost on the way here."""
    waits, _ = early.setdefault(key, {}), due.setdefault(key, index)
    for first in sorted({*waits, index}):
        if due[key] < first <= index:
            print(names.get(key, key[1]), due[key], "lost", first - due[key])
            due[key] = first
        if first <= due[key]:
            _, samples, words = waits.pop(first, (0, 0, ()))
            if words and first == due[key]:  # else it is here twice, or late
                print(names.get(key, key[1]), first, *words)
                due[key] += samples

def blocks(session, body, count):
    for _ in range(count):
        channel, element, form, number, first, bucket = struct.unpack_from("<HBBHxxQ16xI", body)
        layout = "<QBxxx" if form == 2 else f"<{number * (1, 4)[form]}{'fdhi'[element]}"  # least, greatest, first, last
        values, body = struct.unpack_from(layout, body, 36), body[36 + struct.calcsize(layout):]
        key, samples = (session, channel), values[0] if form == 2 else number * bucket
        words = ("samples", "buckets", "gap")[form], samples, *([CAUSES.get(values[1], "unknown")] if form == 2 else values)
        early.setdefault(key, {}).setdefault(first, (time.monotonic() + 0.02, samples, words))
        settle(key, due.get(key, first))

def metadata(session, body):
    while body:
        code, value, body = body[0], body[2:2 + body[1]], body[2 + body[1]:]
        if code == 16:
            channel = struct.unpack("<H", value)[0]
        elif code == 17 and names.get((session, channel)) != (name := repr(value.decode())[1:-1]):
            names[session, channel] = name  # control characters of others are escaped
            print("channel", channel, name)

receiver = socket(AF_INET, SOCK_DGRAM)
receiver.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
receiver.setsockopt(SOL_SOCKET, SO_RCVBUF, 8 << 20)
receiver.bind((GROUP, int(PORT)))
receiver.setsockopt(IPPROTO_IP, IP_ADD_MEMBERSHIP, struct.pack("=4s4xi", inet_aton(GROUP), INTERFACE and if_nametoindex(INTERFACE) or 0))
receiver.settimeout(0.02)
while True:
    with suppress(TimeoutError, struct.error, LookupError, NameError, ValueError):  # nothing came, or what is no signal
        magic, kind, flags, count, session = struct.unpack_from("<2sBBxxHQ8x", datagram := receiver.recv(2048))
        if (magic, kind, flags) == (b"WS", 0x10, 0):  # version 1, not sealed
            blocks(session, datagram[24:], count)
        elif (magic, kind, flags) == (b"WS", 0x13, 0):
            metadata(session, datagram[24:])
        elif (magic, flags) == (b"WS", 0) and kind in (0x11, 0x12):
            [settle((session, channel), index) for channel, index in struct.iter_unpack("<HQ", datagram[24:])]
            print("end" if kind == 0x12 else "heartbeat", f"{session:016x}", flush=True)
    for key, first in [(key, first) for key, waits in early.items() for first in waits if waits[first][0] < time.monotonic()]:
        settle(key, first)
