/* recvmmsg, then to each destination runs of equal size in one send (UDP_SEGMENT), from the receive buffers. */
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
		for (int start = 0, end; start < got; start = end) {
			/* As many as one send takes; the last may be shorter. */
			size_t size = slices[start].iov_len, total = size;
			for (end = start + 1; end < got && size > 0 && slices[end - 1].iov_len == size; end++) {
				if (slices[end].iov_len > size || slices[end].iov_len == 0 ||
				    total + slices[end].iov_len > LONGEST)
					break;
				total += slices[end].iov_len;
			}
			union {
				char space[CMSG_SPACE(sizeof(uint16_t))];
				struct cmsghdr header;
			} control = { 0 };
			struct msghdr run = { .msg_iov = &slices[start], .msg_iovlen = end - start };
			if (end - start > 1) {
				uint16_t segment = size;
				control.header.cmsg_level = SOL_UDP;
				control.header.cmsg_type = UDP_SEGMENT;
				control.header.cmsg_len = CMSG_LEN(sizeof segment);
				memcpy(CMSG_DATA(&control.header), &segment, sizeof segment);
				run.msg_control = &control;
				run.msg_controllen = sizeof control.space;
			}
			for (int d = 0; d < count; d++)
				sendmsg(destinations[d], &run, 0);
		}
	}
}
