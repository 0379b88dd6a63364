#!/usr/bin/env python3
"""Joins a group of `weir monitor`; prints channels, samples and gaps. docs/signal.md describes every byte.

python3 signal.py [GROUP [PORT [INTERFACE]]]"""
import socket, struct, sys

GROUP, PORT, INTERFACE = (sys.argv[1:] + ["239.192.77.1", "5110", ""][len(sys.argv) - 1:])[:3]
ELEMENTS = "fdhi"  # f32, f64, i16, i32
CAUSES = "unknown source unselected station network host socket server viewer restart".split()
due, names = {}, {}  # by session and channel: the index expected next, the name

def missing(key, index):
    """What is neither there nor told to be missing was lost on the way here."""
    if due.get(key, index) < index:
        print(names.get(key, key[1]), due[key], "lost", index - due[key])
    due[key] = max(index, due.get(key, 0))

def blocks(session, body, count):
    for _ in range(count):
        channel, element, form, number, first, time, ticks, step, bucket = struct.unpack_from("<HBBHxxQqIII", body)
        key, body = (session, channel), body[36:]
        missing(key, first)
        if form == 2:
            length, (samples, cause) = 12, struct.unpack_from("<QBxxx", body)
            told = ["gap", samples, CAUSES[cause] if cause < len(CAUSES) else "unknown"]
        else:  # a bucket has four values: least, greatest, first, last
            layout = f"<{number * (4 if form else 1)}{ELEMENTS[element]}"
            length, samples = struct.calcsize(layout), number * bucket
            told = ["buckets" if form else "samples", samples, *struct.unpack_from(layout, body)]
        print(names.get(key, channel), first, *told)
        due[key], body = max(due[key], first + samples), body[length:]

def metadata(session, body):
    while body:
        key, value, body = body[0], body[2:2 + body[1]], body[2 + body[1]:]
        if key == 16:
            channel = struct.unpack("<H", value)[0]
        elif key == 17 and names.get((session, channel)) != value.decode():
            names[session, channel] = value.decode()
            print("channel", channel, value.decode())

receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
receiver.bind((GROUP, int(PORT)))
member = socket.inet_aton(GROUP) + bytes(4) + struct.pack("=i", socket.if_nametoindex(INTERFACE) if INTERFACE else 0)
receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
while datagram := receiver.recv(2048):
    magic, kind, flags, count, session, sequence = struct.unpack_from("<2sBBxxHQQ", datagram)
    if magic != b"WS" or kind >> 4 != 1 or flags:
        continue  # no signal of version 1, or sealed
    elif kind & 15 == 0:
        blocks(session, datagram[24:], count)
    elif kind & 15 == 3:
        metadata(session, datagram[24:])
    elif kind & 15 in (1, 2):
        [missing((session, channel), index) for channel, index in struct.iter_unpack("<HQ", datagram[24:])]
        print("end" if kind & 15 == 2 else "heartbeat", f"{session:016x}", flush=True)
