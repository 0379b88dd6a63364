/* send(2) and recvfrom(2). */
#include "measure.h"

static void prepare(void) {}

static size_t send_burst(void) {
    for (size_t i = 0; i < burst; i++)
        check(send(sender, bytes, payload, MSG_DONTWAIT) >= 0, "send");
    return burst;
}

static size_t receive_all(void) {
    struct sockaddr_in from;
    size_t count = 0;
    for (;; count++) {
        socklen_t length = sizeof from;
        if (recvfrom(receiver, bytes, sizeof bytes, MSG_DONTWAIT, (struct sockaddr *)&from, &length) < 0) return count;
    }
}
