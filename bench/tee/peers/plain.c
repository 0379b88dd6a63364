/* A datagram at a time: recv, then send to each destination. */
#include "tee.h"

int main(int argc, char **argv)
{
	static char bytes[LONGEST];
	int in = open_all(argc, argv);
	for (;;) {
		ssize_t length = recv(in, bytes, sizeof bytes, 0);
		if (length < 0)
			continue;
		for (int i = 0; i < count; i++)
			send(destinations[i], bytes, length, 0);
	}
}
