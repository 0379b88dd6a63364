/* sendmmsg(2) and recvmmsg(2), 64 at a time. */
#include "measure.h"
#define BATCH 64
static struct mmsghdr out[BATCH], in[BATCH];
static struct iovec piece, room[BATCH];
static struct sockaddr_storage from[BATCH];

static void prepare(void) {
    size_t slot = 65536 + 192; /* slots a power of two apart would share the same few cache sets */
    char *buffers = malloc(BATCH * slot);
    piece = (struct iovec){bytes, payload};
    for (int i = 0; i < BATCH; i++) {
        out[i].msg_hdr = (struct msghdr){.msg_iov = &piece, .msg_iovlen = 1};
        room[i] = (struct iovec){buffers + i * slot, 65535};
        in[i].msg_hdr = (struct msghdr){.msg_iov = &room[i], .msg_iovlen = 1, .msg_name = &from[i]};
    }
}

static size_t send_burst(void) {
    for (size_t i = 0; i < burst; i += BATCH) check(sendmmsg(sender, out, BATCH, MSG_DONTWAIT) == BATCH, "sendmmsg");
    return burst;
}

static size_t receive_all(void) {
    size_t count = 0;
    int n = BATCH;
    for (;; count += n) {
        for (int i = 0; i < n; i++) in[i].msg_hdr.msg_namelen = sizeof from[i];
        if ((n = recvmmsg(receiver, in, BATCH, MSG_DONTWAIT, NULL)) < 0) return count;
    }
}
