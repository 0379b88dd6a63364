import socket
import struct
import time

connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
connection.connect(("10.0.0.1", 65432))
buffer = bytearray(1000)
while True:
    buffer[0:8] = struct.pack(">d", time.time())
    connection.sendall(buffer)
    time.sleep(0.01)
