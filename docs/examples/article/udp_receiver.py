import socket
import struct
import time

receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(("10.0.0.1", 65432))
print("listening", flush=True)
while True:
    message = receiver.recv(1000)
    now = time.time()
    sent = struct.unpack(">d", message[:8])[0]
    print(repr(now), repr(now - sent), flush=True)
