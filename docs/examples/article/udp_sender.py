import socket
import struct
import time

sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
message = bytearray(1000)
while True:
    message[0:8] = struct.pack(">d", time.time())
    sender.sendto(message, ("10.0.0.1", 65432))
    time.sleep(0.01)
