/* recvmmsg, then sendmmsg to each destination. */
#include "tee.h"

enum { BATCH = 64, SIZE = 9216 };

int main(int argc, char **argv)
{
	static char bytes[BATCH][SIZE];
	static struct iovec slices[BATCH];
	static struct mmsghdr messages[BATCH];
	int in = open_all(argc, argv);
	for (;;) {
		for (int i = 0; i < BATCH; i++) {
			slices[i] = (struct iovec){ bytes[i], SIZE };
			messages[i].msg_hdr = (struct msghdr){ .msg_iov = &slices[i], .msg_iovlen = 1 };
		}
		int got = recvmmsg(in, messages, BATCH, MSG_WAITFORONE, NULL);
		for (int i = 0; i < got; i++)
			slices[i].iov_len = messages[i].msg_len;
		for (int d = 0; d < count; d++)
			for (int sent = 0, n; sent < got; sent += n > 0 ? n : 1)
				n = sendmmsg(destinations[d], messages + sent, got - sent, 0);
	}
}
