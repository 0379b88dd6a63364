import socket
import struct
import time

server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
server.bind(("10.0.0.1", 65432))
server.listen()
print("listening", flush=True)
connection, _ = server.accept()
while True:
    message = connection.recv(1000, socket.MSG_WAITALL)
    if len(message) < 1000:
        break
    now = time.time()
    sent = struct.unpack(">d", message[:8])[0]
    print(repr(now), repr(now - sent), flush=True)
