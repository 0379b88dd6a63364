/* What the loops have in common: a sender connected to a receiver over loopback, two clocks, and the protocol: bursts are
 * sent and taken in again by turns on one thread, so that nothing but the calls is measured.
 * Arguments: payload bytes, bursts, datagrams a burst. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

static size_t payload, bursts, burst;
static int sender, receiver;
static char bytes[65536];

static uint64_t now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void check(int ok, const char *what) {
    if (!ok) { perror(what); exit(1); }
}

static size_t send_burst(void);
static size_t receive_all(void);
static void prepare(void);

int main(int argc, char **argv) {
    check(argc == 4, "three arguments");
    payload = atol(argv[1]), bursts = atol(argv[2]), burst = atol(argv[3]);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof to;
    int room = 32 << 20;
    receiver = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    if (setsockopt(receiver, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room))
        setsockopt(receiver, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    check(!bind(receiver, (struct sockaddr *)&to, length), "bind");
    getsockname(receiver, (struct sockaddr *)&to, &length);
    sender = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    check(!connect(sender, (struct sockaddr *)&to, length), "connect");
    prepare();
    uint64_t cpu[2] = {0}, wall[2] = {0}, count[2] = {0};
    for (size_t i = 0; i < bursts; i++) {
        for (int side = 0; side < 2; side++) {
            uint64_t c = now(CLOCK_THREAD_CPUTIME_ID), w = now(CLOCK_MONOTONIC);
            size_t n = side ? receive_all() : send_burst();
            if (i < bursts / 10) continue; /* warming up */
            wall[side] += now(CLOCK_MONOTONIC) - w, cpu[side] += now(CLOCK_THREAD_CPUTIME_ID) - c;
            count[side] += n;
        }
    }
    printf("%.2f %.2f %.2f %.2f %zu %zu\n", (double)cpu[0] / count[0], (double)wall[0] / count[0],
           (double)cpu[1] / count[1], (double)wall[1] / count[1], (size_t)count[0], (size_t)count[1]);
    return 0;
}
