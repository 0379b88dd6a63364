/* What the loops share: a bound socket, and one connected socket a destination.
 *
 * Usage of each: PROGRAM PORT ADDRESS:PORT ... */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum { MOST = 64, LONGEST = 65507, BUFFER = 8 << 20 };

static int destinations[MOST], count;
static struct sockaddr_in addresses[MOST];

static void set_buffer(int fd, int forced, int capped)
{
	int bytes = BUFFER;
	if (setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof bytes))
		setsockopt(fd, SOL_SOCKET, capped, &bytes, sizeof bytes);
}

/* Opens everything; returns the listening socket. */
static int open_all(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	int in = socket(AF_INET, SOCK_DGRAM, 0);
	if (argc < 3 || argc - 2 > MOST)
		errx(2, "usage: %s PORT ADDRESS:PORT ...", argv[0]);
	address.sin_port = htons(atoi(argv[1]));
	set_buffer(in, SO_RCVBUFFORCE, SO_RCVBUF);
	for (int i = 2; i < argc; i++) {
		struct sockaddr_in *to = &addresses[count];
		char *colon = strchr(argv[i], ':');
		if (!colon)
			errx(2, "%s: no port", argv[i]);
		*colon = 0;
		to->sin_family = AF_INET;
		to->sin_port = htons(atoi(colon + 1));
		if (inet_pton(AF_INET, argv[i], &to->sin_addr) != 1)
			errx(2, "%s: not an address", argv[i]);
		destinations[count] = socket(AF_INET, SOCK_DGRAM, 0);
		set_buffer(destinations[count], SO_SNDBUFFORCE, SO_SNDBUF);
		if (connect(destinations[count++], (struct sockaddr *)to, sizeof *to))
			err(1, "connect");
	}
	if (bind(in, (struct sockaddr *)&address, sizeof address))
		err(1, "bind");
	return in;
}
