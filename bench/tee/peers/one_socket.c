/* As most replicators do it: one socket with its default buffer for all destinations, which blocks. */
#include "tee.h"

int main(int argc, char **argv)
{
	static char bytes[LONGEST];
	int in = open_all(argc, argv), out = socket(AF_INET, SOCK_DGRAM, 0);
	for (;;) {
		ssize_t length = recv(in, bytes, sizeof bytes, 0);
		if (length < 0)
			continue;
		for (int i = 0; i < count; i++)
			sendto(out, bytes, length, 0, (struct sockaddr *)&addresses[i], sizeof addresses[i]);
	}
}
