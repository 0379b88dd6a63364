/* Runs as the kernel joined them (UDP_GRO) leave again as they came (UDP_SEGMENT). */
#include "tee.h"

enum { BATCH = 16, SIZE = 65536 };

union control {
	char space[CMSG_SPACE(sizeof(int))];
	struct cmsghdr header;
};

int main(int argc, char **argv)
{
	static char bytes[BATCH][SIZE];
	static struct iovec slices[BATCH];
	static union control controls[BATCH];
	static struct mmsghdr messages[BATCH];
	int in = open_all(argc, argv), on = 1;
	if (setsockopt(in, SOL_UDP, UDP_GRO, &on, sizeof on))
		err(1, "UDP_GRO");
	for (;;) {
		for (int i = 0; i < BATCH; i++) {
			slices[i] = (struct iovec){ bytes[i], SIZE };
			messages[i].msg_hdr = (struct msghdr){ .msg_iov = &slices[i], .msg_iovlen = 1,
				.msg_control = &controls[i], .msg_controllen = sizeof controls[i].space };
		}
		int got = recvmmsg(in, messages, BATCH, MSG_WAITFORONE, NULL);
		for (int i = 0; i < got; i++) {
			struct msghdr *run = &messages[i].msg_hdr;
			struct cmsghdr *header = CMSG_FIRSTHDR(run);
			slices[i].iov_len = messages[i].msg_len;
			int size = 0;
			if (header && header->cmsg_level == SOL_UDP && header->cmsg_type == UDP_GRO)
				memcpy(&size, CMSG_DATA(header), sizeof size);
			if (size > 0 && (size_t)size < slices[i].iov_len) {
				uint16_t segment = size;
				memset(&controls[i], 0, sizeof controls[i]);
				header = &controls[i].header;
				header->cmsg_level = SOL_UDP;
				header->cmsg_type = UDP_SEGMENT;
				header->cmsg_len = CMSG_LEN(sizeof segment);
				memcpy(CMSG_DATA(header), &segment, sizeof segment);
				run->msg_controllen = CMSG_SPACE(sizeof segment);
			} else {
				run->msg_control = NULL;
				run->msg_controllen = 0;
			}
		}
		for (int d = 0; d < count; d++)
			for (int sent = 0, n; sent < got; sent += n > 0 ? n : 1)
				n = sendmmsg(destinations[d], messages + sent, got - sent, 0);
	}
}
