/* Runs of 64 datagrams or 65,000 bytes: sendmsg(2) with UDP_SEGMENT, recvmmsg(2) with UDP_GRO. */
#include "measure.h"
#include <netinet/udp.h>
#define BATCH 16
static struct mmsghdr in[BATCH];
static struct iovec piece, room[BATCH];
static struct sockaddr_storage from[BATCH];
static char control[BATCH][64] __attribute__((aligned(8))), size[CMSG_SPACE(2)] __attribute__((aligned(8)));

static void prepare(void) {
    int on = 1;
    size_t slot = 65536 + 192, run = 65000 / payload < 64 ? 65000 / payload : 64;
    char *buffers = malloc(BATCH * slot);
    check(!setsockopt(receiver, SOL_UDP, UDP_GRO, &on, sizeof on), "UDP_GRO");
    piece = (struct iovec){bytes, run * payload};
    struct cmsghdr *c = (struct cmsghdr *)size;
    *c = (struct cmsghdr){.cmsg_level = SOL_UDP, .cmsg_type = UDP_SEGMENT, .cmsg_len = CMSG_LEN(2)};
    *(uint16_t *)CMSG_DATA(c) = payload;
    for (int i = 0; i < BATCH; i++) {
        room[i] = (struct iovec){buffers + i * slot, 65535};
        in[i].msg_hdr = (struct msghdr){.msg_iov = &room[i], .msg_iovlen = 1, .msg_name = &from[i]};
        in[i].msg_hdr.msg_control = control[i], in[i].msg_hdr.msg_controllen = sizeof control[i];
    }
}

static size_t send_burst(void) {
    struct msghdr run = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = size, .msg_controllen = sizeof size};
    size_t count = 0;
    for (; count < burst; count += piece.iov_len / payload) check(sendmsg(sender, &run, MSG_DONTWAIT) > 0, "sendmsg");
    return count;
}

static size_t receive_all(void) {
    size_t count = 0;
    for (int n = BATCH;;) {
        for (int i = 0; i < n; i++)
            in[i].msg_hdr.msg_namelen = sizeof from[i], in[i].msg_hdr.msg_controllen = sizeof control[i];
        if ((n = recvmmsg(receiver, in, BATCH, MSG_DONTWAIT, NULL)) < 0) return count;
        for (int i = 0; i < n; i++) {
            struct cmsghdr *c = CMSG_FIRSTHDR(&in[i].msg_hdr);
            int each = c && c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO ? *(int *)CMSG_DATA(c) : 0;
            count += each ? (in[i].msg_len + each - 1) / each : 1;
        }
    }
}
