/* Counts UDP datagrams that the kernel drops, queues, receives and sends. Loaded by src/trace, rebuilt by `make bpf`.
 *
 * Every count is kept in maps that user space reads; nothing is sent to it per datagram. What many processors count is
 * counted per CPU; only the state of one socket is shared by those that feed and read this socket. A program never
 * interrupts itself on one processor (the kernel skips it and counts that as a miss), so per-CPU values need no lock.
 */
#include "bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Set by the loader, from the running kernel's BTF; constants to the verifier, which leaves out what cannot run. */
const volatile u8 has_reason;   /* kfree_skb(skb, location, reason): 5.17 */
const volatile u8 has_rx_sk;    /* kfree_skb(..., rx_sk): 6.11 */
const volatile u8 has_state;    /* sched_switch(..., prev_state): 5.18 */
const volatile u8 follow_queue; /* whether sockets are followed: a drop tells their level, too */
const volatile u32 gro_flag;    /* number of UDP_FLAGS_GRO_ENABLED in udp_sock.udp_flags, 6.7 */
const volatile u32 reason_backlog = ~0u;
const volatile u32 reason_reassembly = ~0u;
const volatile u32 reason_receive_buffer = ~0u;

enum {
	AF_INET = 2,
	AF_INET6 = 10,
	SOCK_DGRAM = 2,
	UDP = 17,
	SKB_GSO_UDP = 1 << 16, /* one datagram, to be sent as fragments */
	MSG_PEEK = 2,
	MSG_ERRQUEUE = 0x2000,
	NET_RX = 3,
	NO_HEADER = 0xffff,
};

#define SECOND 1000000000ull
#define MILLISECOND 1000000ull

/* ---- what is followed ---- */

struct filter {
	u64 ports[1024]; /* a bit a port */
	u32 all_ports;
	u32 all_namespaces;
	u32 namespace; /* the only one, or the first; the others are in `namespaces` */
	u32 more_namespaces;
};

struct {
	FIELD(type, ARRAY);
	FIELD(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct filter);
} filter SEC(".maps");

struct {
	FIELD(type, HASH);
	FIELD(max_entries, 4096);
	TYPE(key, u32);
	TYPE(value, u8);
} namespaces SEC(".maps");

INLINE struct filter *the_filter(void)
{
	u32 zero = 0;
	return bpf_map_lookup_elem(&filter, &zero);
}

INLINE bool follows_port(struct filter *f, u16 port)
{
	return f->all_ports || f->ports[port >> 6] >> (port & 63) & 1;
}

INLINE bool follows_namespace(struct filter *f, u32 inode)
{
	if (f->all_namespaces || f->namespace == inode)
		return true;
	return f->more_namespaces && bpf_map_lookup_elem(&namespaces, &inode);
}

/* Events that found a map full. */
struct {
	FIELD(type, PERCPU_ARRAY);
	FIELD(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, u64);
} missed SEC(".maps");

INLINE void miss(u64 datagrams)
{
	u32 zero = 0;
	u64 *count = bpf_map_lookup_elem(&missed, &zero);

	if (count)
		*count += datagrams;
}

INLINE u64 cookie_of(struct sock *sk)
{
	u64 cookie = sk->__sk_common.skc_cookie.counter;

	return cookie ? cookie : bpf_get_socket_cookie(sk);
}

/* Of skb->sk. The verifier lets no helper have that pointer, but the same one by way of its struct socket; that is gone
 * once the program has closed it, and then it has a cookie, or nobody can ask for one any more. */
INLINE u64 cookie_of_sender(struct sock *sk)
{
	u64 cookie = sk->__sk_common.skc_cookie.counter;

	return cookie ? cookie : bpf_get_socket_cookie(sk->sk_socket->sk);
}

/* ---- headers ---- */

struct packet {
	u32 from[4];
	u32 to[4];
	u32 id;       /* of its fragments */
	u32 piece;    /* bytes of this fragment behind the IP headers */
	u16 offset;   /* of this fragment, bytes */
	u16 port;
	u16 from_port;
	u16 udp_length;
	u8 version;
	bool more;    /* fragments follow */
	bool multicast;
};

union header {
	u8 bytes[48];
	u16 halves[24];
	u32 words[12];
};

INLINE bool is_fragment(const struct packet *p)
{
	return p->more || p->offset;
}

INLINE bool parse_ports(const unsigned char *at, struct packet *p)
{
	u16 udp[4];

	if (bpf_probe_read_kernel(udp, sizeof(udp), at))
		return false;
	p->from_port = ntohs(udp[0]);
	p->port = ntohs(udp[1]);
	p->udp_length = ntohs(udp[2]);
	return true;
}

/* Headers of a UDP datagram or of a fragment of one; false: it is something else. */
static __attribute__((noinline)) int parse_ip6(const unsigned char *at, const unsigned char *end, union header *h, struct packet *p)
{
	u8 next;
	u32 length = 40;

	if (at + 40 > end || bpf_probe_read_kernel(h, 40, at))
		return false;
	__builtin_memcpy(p->from, &h->words[2], 16);
	__builtin_memcpy(p->to, &h->words[6], 16);
	p->multicast = h->bytes[24] == 0xff;
	p->piece = ntohs(h->halves[2]);
	next = h->bytes[6];
	for (int i = 0; i < 4; i++) {
		u8 extension[8];

		if (next == UDP)
			break;
		if (next != 0 && next != 43 && next != 44 && next != 60) /* hop-by-hop, routing, fragment, destination */
			return false;
		if (at + length + 8 > end || bpf_probe_read_kernel(extension, 8, at + length))
			return false;
		if (next == 44) {
			u16 place = (u16)extension[2] << 8 | extension[3];

			p->offset = place & 0xfff8;
			p->more = place & 1;
			p->id = *(u32 *)&extension[4];
			next = extension[0];
			length += 8;
			if (p->offset)
				break;
		} else {
			next = extension[0];
			length += 8 * (extension[1] + 1);
		}
	}
	if (next != UDP)
		return false;
	p->version = 6;
	p->piece = p->piece + 40 - length;
	if (p->offset)
		return true;
	return at + length + 8 <= end && parse_ports(at + length, p);
}

INLINE bool parse_at(const unsigned char *at, const unsigned char *end, struct packet *p)
{
	union header h;
	u32 length;

	p->id = p->offset = p->more = 0;
	p->port = p->from_port = p->udp_length = 0;
	if (at + 20 > end || bpf_probe_read_kernel(&h, 28, at))
		return false;
	if (h.bytes[0] >> 4 == 6)
		return parse_ip6(at, end, &h, p);
	length = (h.bytes[0] & 15) * 4;
	if (h.bytes[0] >> 4 != 4 || h.bytes[9] != UDP)
		return false;
	if (length < 20) /* malformed, and about to be dropped */
		length = 20;
	p->version = 4;
	p->from[0] = h.words[3];
	p->to[0] = h.words[4];
	p->from[1] = p->from[2] = p->from[3] = 0;
	p->to[1] = p->to[2] = p->to[3] = 0;
	p->multicast = h.bytes[16] >> 4 == 14 || h.words[4] == ~0u;
	p->offset = (ntohs(h.halves[3]) & 0x1fff) * 8;
	p->more = h.bytes[6] & 0x20;
	p->id = h.halves[2];
	p->piece = ntohs(h.halves[1]) - length;
	if (p->offset)
		return true;
	if (at + length + 8 > end)
		return false;
	if (length != 20)
		return parse_ports(at + length, p);
	p->from_port = ntohs(h.halves[10]);
	p->port = ntohs(h.halves[11]);
	p->udp_length = ntohs(h.halves[12]);
	return true;
}

/* Datagrams in a buffer that segmentation offloads made of many. */
INLINE u32 datagrams_in(const struct packet *p, unsigned char *head, u32 end)
{
	struct skb_shared_info *info = (void *)(head + end);
	struct {
		u16 size;
		u16 count;
	} gso;
	u32 type = 0;

	if (bpf_probe_read_kernel(&gso, sizeof(gso), &info->gso_size) || likely(!gso.size))
		return 1;
	bpf_probe_read_kernel(&type, sizeof(type), &info->gso_type);
	if (type & SKB_GSO_UDP)
		return 1;
	if (gso.count)
		return gso.count;
	/* A device of untrusted origin (virtio, tun) leaves it to be counted. */
	return ((u32)p->udp_length - 8 + gso.size - 1) / gso.size;
}

/* ---- datagrams in fragments ---- */

struct fragment_key {
	u32 from[4];
	u32 to[4];
	u32 id;
	u32 namespace; /* 0: unicast, or being sent; else copies of it may be lost independently */
};

struct fragmented {
	u64 lost;  /* when its first piece was lost; 0: none was */
	u64 point; /* where its first fragment was first seen: namespace and interface, and 1 << 63 when leaving */
	u16 port;
	u16 from_port;
	bool seen; /* its first fragment, hence the ports */
	bool first_lost;
	u32 namespace; /* that received it last */
	u32 unused;
};

struct {
	FIELD(type, LRU_HASH);
	FIELD(max_entries, 16384);
	TYPE(key, struct fragment_key);
	TYPE(value, struct fragmented);
} fragmented SEC(".maps");

/* Those of which not all fragments came yet. */
struct waiting {
	u64 since;
	u32 bytes;
	u32 total; /* 0: its last fragment has not come */
	u16 port;  /* 0: its first fragment has not come */
	u8 multicast;
};

struct {
	FIELD(type, LRU_HASH);
	FIELD(max_entries, 8192);
	TYPE(key, struct fragment_key);
	TYPE(value, struct waiting);
} waiting SEC(".maps");

INLINE void fragment_key(struct fragment_key *key, const struct packet *p, u32 namespace)
{
	__builtin_memcpy(key->from, p->from, sizeof(key->from));
	__builtin_memcpy(key->to, p->to, sizeof(key->to));
	key->id = p->id;
	key->namespace = namespace;
}

/* A fragment is lost: whether this loses its datagram, and the datagram's ports. */
static __attribute__((noinline)) int lose_fragment(struct packet *p, u32 namespace, u32 outgoing)
{
	struct fragment_key key;
	struct fragmented *known, *upstream = NULL;
	struct fragmented new = {};
	bool first;
	u64 now = bpf_ktime_get_ns();

	first = !p->offset;
	if (p->multicast && !outgoing) {
		fragment_key(&key, p, 0);
		upstream = bpf_map_lookup_elem(&fragmented, &key);
		if (upstream && upstream->lost && now - upstream->lost < 40 * SECOND)
			return 0;
		if (upstream && upstream->seen && !first) {
			p->port = upstream->port;
			p->from_port = upstream->from_port;
		}
		key.namespace = namespace;
	} else {
		fragment_key(&key, p, 0);
	}
	known = bpf_map_lookup_elem(&fragmented, &key);
	if (known) {
		bool again = first && known->first_lost; /* one fragment is lost but once: a new datagram */

		if (known->seen && !first) {
			p->port = known->port;
			p->from_port = known->from_port;
		}
		if (first) {
			known->first_lost = true;
			known->seen = true;
			known->port = p->port;
			known->from_port = p->from_port;
		}
		if (known->lost && now - known->lost < 40 * SECOND && !again)
			return 0;
		known->lost = now;
		return 1;
	}
	new.lost = now;
	new.port = p->port;
	new.from_port = p->from_port;
	new.seen = first || p->port;
	new.first_lost = first;
	bpf_map_update_elem(&fragmented, &key, &new, ANY);
	return 1;
}

/* A fragment that waits to be joined does not tell where (its device's place is used otherwise): who received it last.
 * Of copies for many this cannot be told; then the first fragment, which tells it, stands for all. */
static __attribute__((noinline)) u32 waits_in(struct packet *p)
{
	struct fragment_key key;
	struct fragmented *known;

	fragment_key(&key, p, 0);
	known = bpf_map_lookup_elem(&fragmented, &key);
	if (!known || (p->multicast && known->seen))
		return 0;
	return known->namespace;
}

/* A fragment passes an interface. */
static __attribute__((noinline)) int pass_fragment(struct packet *p, u64 point, u32 namespace)
{
	struct fragment_key key;
	struct waiting *partial;
	struct fragmented *known;
	bool leaving = point >> 63;

	fragment_key(&key, p, 0);
	if (!p->offset) {
		known = bpf_map_lookup_elem(&fragmented, &key);
		if (!known || !known->seen || known->point == point || !known->point) {
			/* The identification was used before, by a datagram that passed the same point: a new one. */
			struct fragmented new = {
				.point = point,
				.port = p->port,
				.from_port = p->from_port,
				.seen = true,
				.namespace = namespace,
			};

			if (known && known->lost && !known->seen && bpf_ktime_get_ns() - known->lost < SECOND)
				new.lost = known->lost; /* a later fragment overtook this one and was lost */
			bpf_map_update_elem(&fragmented, &key, &new, ANY);
			if (p->multicast) {
				key.namespace = namespace;
				bpf_map_delete_elem(&fragmented, &key);
			}
		}
	}
	if (leaving)
		return 0;
	key.namespace = 0;
	known = bpf_map_lookup_elem(&fragmented, &key);
	if (known) {
		known->namespace = namespace;
	} else {
		struct fragmented new = { .namespace = namespace };

		bpf_map_update_elem(&fragmented, &key, &new, NOEXIST);
	}
	key.namespace = namespace;
	partial = bpf_map_lookup_elem(&waiting, &key);
	if (!partial || bpf_ktime_get_ns() - partial->since > 30 * SECOND) {
		struct waiting new = {
			.since = bpf_ktime_get_ns(),
			.bytes = p->piece,
			.total = p->more ? 0 : p->offset + p->piece,
			.port = p->port,
			.multicast = p->multicast,
		};

		bpf_map_update_elem(&waiting, &key, &new, ANY);
		return 0;
	}
	if (!p->offset)
		partial->port = p->port;
	if (!p->more)
		partial->total = p->offset + p->piece;
	__sync_fetch_and_add(&partial->bytes, p->piece);
	if (partial->total && partial->bytes >= partial->total)
		bpf_map_delete_elem(&waiting, &key);
	return 0;
}

/* ---- sockets ---- */

enum {
	JOINS = 1,  /* UDP_GRO is on: one read may return many datagrams */
	JOINED = 2, /* and was seen to do so: `segment` is the size of each */
};

struct socket_state {
	/* written by those who put datagrams in */
	u64 enqueued;
	u64 waiting_since; /* when the queue stopped to be empty, or was read last; 0: nothing waits */
	u64 band;          /* since when it is in which band of the level: nanoseconds << 3 | band */
	u64 band_ns[5];
	u32 level;
	u32 level_max;
	u32 receive_buffer;
	u32 truesize;      /* of the last buffer that was put in while at least half of the memory was used */
	u32 segment;       /* bytes of its datagrams; 0: not seen yet */
	u8 joined;         /* JOINS, JOINED */
	u8 mixed;          /* and they were of different sizes */
	u16 port;
	/* written by those who read */
	u64 reads __attribute__((aligned(64)));
	u64 bytes;
	u64 datagrams;
	u64 longest_stall;
	u64 stalled;
	u32 reader;
	u32 namespace;
};

struct {
	FIELD(type, HASH);
	FIELD(max_entries, 16384);
	TYPE(key, u64);
	TYPE(value, struct socket_state);
} sockets SEC(".maps");

INLINE bool is_udp(struct sock *sk)
{
	return sk->sk_protocol == UDP && sk->sk_type == SOCK_DGRAM;
}

INLINE struct socket_state *follow_socket(u64 cookie, u16 port, u32 namespace)
{
	struct socket_state *s = bpf_map_lookup_elem(&sockets, &cookie);

	if (likely(s))
		return s;
	struct socket_state new = { .port = port, .namespace = namespace, .band = bpf_ktime_get_ns() << 3 };

	bpf_map_update_elem(&sockets, &cookie, &new, NOEXIST);
	s = bpf_map_lookup_elem(&sockets, &cookie);
	if (!s)
		miss(1);
	return s;
}

INLINE void enter_band(struct socket_state *s, u64 band)
{
	if (likely((s->band & 7) == band))
		return;
	u64 now = bpf_ktime_get_ns();
	u64 before = __sync_lock_test_and_set(&s->band, now << 3 | band);
	u64 index = before & 7;

	if (index < 5 && now > before >> 3)
		__sync_fetch_and_add(&s->band_ns[index], now - (before >> 3));
}

INLINE void measure(struct socket_state *s, u32 level, u32 buffer)
{
	u64 used = level, whole = buffer, band = 0;

	s->level = level;
	s->receive_buffer = buffer;
	if (level > s->level_max)
		s->level_max = level;
	if (used * 2 >= whole) {
		band = used * 10 >= whole * 9 ? 3 : used * 4 >= whole * 3 ? 2 : 1;
		/* As the kernel decides (__udp_enqueue_schedule_skb): the next must fit. */
		if (used && used + s->truesize > whole)
			band = 4;
	}
	enter_band(s, band);
}

/* The size of its datagrams, from the last buffer in the queue: (the kernel joins datagrams of one size). */
INLINE void learn_segment(struct socket_state *s, struct sk_buff *last)
{
	unsigned char *head = last->head;
	struct skb_shared_info *info = (void *)(head + last->end);
	u16 size = 0;

	bpf_probe_read_kernel(&size, sizeof(size), &info->gso_size);
	if (size) {
		if (s->segment > size || ((s->joined & JOINED) && s->segment != size))
			s->mixed = 1;
		s->segment = size;
		s->joined |= JOINED;
	} else if (last->len > s->segment) {
		if (s->segment)
			s->mixed = 1;
		s->segment = last->len;
	}
}

INLINE bool joins(struct sock *sk)
{
	struct udp_sock *udp = (void *)sk;
	u64 flags = 0;

	if (!gro_flag || !exists(udp->udp_flags))
		return false;
	bpf_probe_read_kernel(&flags, sizeof(flags), &udp->udp_flags);
	return flags >> gro_flag & 1;
}

SEC("tp_btf/sk_data_ready")
int enqueue(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	struct filter *f;
	struct socket_state *s;
	struct sk_buff *last;
	u32 namespace, level, buffer;
	u16 port;
	bool joined;

	if (!is_udp(sk))
		return 0;
	f = the_filter();
	port = sk->__sk_common.skc_num;
	if (!f || !follows_port(f, port))
		return 0;
	namespace = sk->__sk_common.skc_net.net->ns.inum;
	if (!follows_namespace(f, namespace))
		return 0;
	s = follow_socket(cookie_of(sk), port, namespace);
	if (!s)
		return 0;
	__sync_fetch_and_add(&s->enqueued, 1);
	if (!s->waiting_since)
		s->waiting_since = bpf_ktime_get_ns();
	/* Since 6.18 a buffer is first counted in udp_prod_queue, and still is when this is called: only this sum has each
	 * buffer once. */
	level = sk->sk_backlog.rmem_alloc.counter;
	buffer = sk->sk_rcvbuf;
	joined = s->joined || (s->enqueued < 2 && joins(sk));
	if (unlikely((u64)level * 2 >= buffer || joined)) {
		last = sk->sk_receive_queue.prev;
		if ((void *)last != (void *)&sk->sk_receive_queue) {
			s->truesize = last->truesize;
			if (joined)
				learn_segment(s, last);
		}
		if (joined)
			s->joined |= JOINS;
	}
	measure(s, level, buffer);
	return 0;
}

/* Tasks that read, of which it is to be known when they wait for a processor. */
struct reader {
	u64 ready_since; /* 0: it runs or sleeps */
	u64 waited;
	u64 longest;
	char behind[16];
};

struct {
	FIELD(type, HASH);
	FIELD(max_entries, 4096);
	TYPE(key, u32);
	TYPE(value, struct reader);
} readers SEC(".maps");

/* A bit a possible reader, by the low bits of its number: most tasks are none. */
struct reader_bits {
	u64 bits[256];
};

struct {
	FIELD(type, ARRAY);
	FIELD(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct reader_bits);
} reader_bits SEC(".maps");

static __attribute__((noinline)) int follow_reader(u32 task)
{
	struct reader new = {};
	struct reader_bits *bits;
	u32 zero = 0;

	bits = bpf_map_lookup_elem(&reader_bits, &zero);
	if (!bits)
		return 0;
	bpf_map_update_elem(&readers, &task, &new, NOEXIST);
	__sync_fetch_and_or(&bits->bits[task >> 6 & 255], 1ull << (task & 63));
	return 0;
}

SEC("tp_btf/sock_recv_length")
int dequeue(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	int length = (int)ctx[1];
	int flags = (int)ctx[2];
	struct filter *f;
	struct socket_state *s;
	u32 namespace, level, task;
	u64 now, since;
	u16 port;

	if (length < 0 || flags & (MSG_PEEK | MSG_ERRQUEUE) || !is_udp(sk))
		return 0;
	f = the_filter();
	port = sk->__sk_common.skc_num;
	if (!f || !follows_port(f, port))
		return 0;
	namespace = sk->__sk_common.skc_net.net->ns.inum;
	if (!follows_namespace(f, namespace))
		return 0;
	s = follow_socket(cookie_of(sk), port, namespace);
	if (!s)
		return 0;
	__sync_fetch_and_add(&s->reads, 1);
	__sync_fetch_and_add(&s->bytes, length);
	if (unlikely(joins(sk))) {
		u32 segment = s->segment;

		s->joined |= JOINS;
		if (length && (!segment || (!(s->joined & JOINED) && (u32)length > segment)))
			s->mixed = 1;
		__sync_fetch_and_add(&s->datagrams, segment && length ? (length + segment - 1) / segment : 1);
	} else {
		__sync_fetch_and_add(&s->datagrams, 1);
	}
	now = bpf_ktime_get_ns();
	since = s->waiting_since;
	level = sk->sk_backlog.rmem_alloc.counter;
	s->waiting_since = level ? now : 0;
	if (!level && *(volatile int *)&sk->sk_backlog.rmem_alloc.counter)
		s->waiting_since = now; /* came between the two */
	if (since && now > since) {
		u64 stall = now - since;

		if (stall > s->longest_stall)
			s->longest_stall = stall;
		if (stall > MILLISECOND)
			__sync_fetch_and_add(&s->stalled, stall);
	}
	measure(s, level, sk->sk_rcvbuf);
	task = bpf_get_current_pid_tgid();
	if (unlikely(s->reader != task)) {
		s->reader = task;
		follow_reader(task);
	}
	return 0;
}

/* ---- drops ---- */

struct drop_key {
	u64 location;
	u64 cookie;
	u32 namespace;
	u32 interface;
	u32 reason;
	u16 port;
	u16 from_port;
	u32 outgoing;
	u32 unused;
};

struct drop_count {
	u64 datagrams;
	u64 buffers;
};

struct {
	FIELD(type, PERCPU_HASH);
	FIELD(max_entries, 16384);
	TYPE(key, struct drop_key);
	TYPE(value, struct drop_count);
} drops SEC(".maps");

/* Where `drops` is full: without the source ports, of which there may be any number. */
struct {
	FIELD(type, PERCPU_HASH);
	FIELD(max_entries, 4096);
	TYPE(key, struct drop_key);
	TYPE(value, struct drop_count);
} drops_by_port SEC(".maps");

/* The rest of a list of buffers that is freed with its head, which was counted for all. */
struct {
	FIELD(type, PERCPU_ARRAY);
	FIELD(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, u64);
} freed_list SEC(".maps");

INLINE void count_drop(struct drop_key *key, u64 datagrams)
{
	struct drop_count *count = bpf_map_lookup_elem(&drops, key);

	if (likely(count)) {
		count->datagrams += datagrams;
		count->buffers++;
		return;
	}
	struct drop_count new = { datagrams, 1 };

	if (!bpf_map_update_elem(&drops, key, &new, NOEXIST))
		return;
	/* Full; or another processor has made the entry meanwhile. */
	count = bpf_map_lookup_elem(&drops, key);
	if (!count) {
		key->from_port = 0;
		count = bpf_map_lookup_elem(&drops_by_port, key);
		if (!count && !bpf_map_update_elem(&drops_by_port, key, &new, NOEXIST))
			return;
		if (!count)
			count = bpf_map_lookup_elem(&drops_by_port, key);
	}
	if (count) {
		count->datagrams += datagrams;
		count->buffers++;
	} else {
		miss(datagrams);
	}
}

SEC("tp_btf/kfree_skb")
int drop(u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];
	u32 reason = has_reason ? (u32)ctx[2] : 0;
	struct sock *sk = has_rx_sk ? (void *)ctx[3] : NULL;
	struct drop_key key;
	struct packet p;
	struct filter *f = the_filter();
	unsigned char *head, *data, *network, *limit;
	u32 end, datagrams, data_len, zero = 0;
	u16 mac;
	u64 *list;

	if (!f)
		return 0;
	/* Drops by other protocols' sockets; taps (AF_PACKET, raw sockets) lose copies, not datagrams. */
	if (sk && (!is_udp(sk) || !follows_port(f, sk->__sk_common.skc_num)))
		return 0;

	list = bpf_map_lookup_elem(&freed_list, &zero);
	if (!list)
		return 0;
	if (unlikely(*list)) {
		if (*list == (u64)skb) {
			*list = (u64)skb->next;
			return 0;
		}
	}

	head = skb->head;
	data = skb->data;
	limit = head + skb->tail;
	network = head + skb->network_header;
	if (network == head || !parse_at(network, limit, &p)) {
		/* Fresh from a driver: the network header is marked later (__netif_receive_skb_core). */
		if (network == data || !parse_at(data, limit, &p))
			return 0;
	}

	mac = skb->mac_header;
	/* Through eth_type_trans or received, hence on its way in; leaving it has its link layer header, or none, in front. */
	key.outgoing = !sk && !skb->skb_iif && !(mac != NO_HEADER && head + mac < data) && reason != reason_backlog;
	key.cookie = 0;
	key.interface = 0;
	key.namespace = 0;
	key.unused = 0;
	if (sk) {
		key.namespace = sk->__sk_common.skc_net.net->ns.inum;
		key.cookie = cookie_of(sk);
		key.interface = skb->skb_iif;
	} else {
		struct net_device *dev = skb->dev;
		struct sock *sender = skb->sk;

		if (dev) {
			/* In a socket's queue there is something else in its place, which reads as 0. */
			key.namespace = dev->nd_net.net->ns.inum;
			key.interface = dev->ifindex;
		}
		if (!key.namespace) {
			key.interface = skb->skb_iif;
			if (sender)
				key.namespace = sender->__sk_common.skc_net.net->ns.inum;
		}
		if (key.outgoing && sender)
			key.cookie = cookie_of_sender(sender);
	}
	if (unlikely(reason == reason_reassembly && p.offset)) {
		key.namespace = waits_in(&p);
		key.interface = skb->skb_iif;
		if (!key.namespace && p.multicast)
			return 0;
	}
	if (key.namespace && !follows_namespace(f, key.namespace))
		return 0;

	if (unlikely(is_fragment(&p))) {
		/* Without its first fragment nobody knows the ports: counted as port 0. */
		if (!lose_fragment(&p, key.namespace, key.outgoing))
			return 0;
		datagrams = 1;
		if (p.port && !follows_port(f, p.port))
			return 0;
	} else {
		if (!follows_port(f, p.port))
			return 0;
		end = skb->end;
		datagrams = datagrams_in(&p, head, end);
		data_len = skb->data_len;
		if (unlikely(data_len)) {
			struct skb_shared_info *info = (void *)(head + end);
			u64 rest = 0;
			u32 references = 0;

			bpf_probe_read_kernel(&rest, sizeof(rest), &info->frag_list);
			bpf_probe_read_kernel(&references, sizeof(references), &info->dataref);
			*list = (references & 0xffff) == 1 ? rest : 0;
		}
	}
	key.location = ctx[1];
	key.reason = reason;
	key.port = p.port;
	key.from_port = p.from_port;
	count_drop(&key, datagrams);

	if (follow_queue && reason == reason_receive_buffer && sk) {
		struct socket_state *s = bpf_map_lookup_elem(&sockets, &key.cookie);

		if (s)
			enter_band(s, 4);
	}
	return 0;
}

/* ---- what passes ---- */

struct passage_key {
	u64 cookie;
	u32 namespace;
	u32 interface;
	u32 port;
	u32 unused;
};

struct passage_count {
	u64 datagrams;
	u64 bytes;
};

struct {
	FIELD(type, PERCPU_HASH);
	FIELD(max_entries, 16384);
	TYPE(key, struct passage_key);
	TYPE(value, struct passage_count);
} arrivals SEC(".maps");

struct {
	FIELD(type, PERCPU_HASH);
	FIELD(max_entries, 16384);
	TYPE(key, struct passage_key);
	TYPE(value, struct passage_count);
} departures SEC(".maps");

INLINE void count_passage(void *map, const struct passage_key *key, u64 datagrams, u64 bytes)
{
	struct passage_count *count = bpf_map_lookup_elem(map, key);

	if (unlikely(!count)) {
		struct passage_count new = {};

		bpf_map_update_elem(map, key, &new, NOEXIST);
		count = bpf_map_lookup_elem(map, key);
		if (!count)
			return miss(datagrams);
	}
	count->datagrams += datagrams;
	count->bytes += bytes;
}

INLINE int pass(struct sk_buff *skb, bool leaving)
{
	struct filter *f = the_filter();
	struct net_device *dev = skb->dev;
	unsigned char *head = skb->head;
	struct passage_key key = {};
	struct packet p;
	u32 end = skb->end, datagrams, bytes;

	if (!f || !dev)
		return 0;
	key.namespace = dev->nd_net.net->ns.inum;
	if (!follows_namespace(f, key.namespace))
		return 0;
	if (!parse_at(leaving ? head + skb->network_header : skb->data, head + skb->tail, &p))
		return 0;
	key.interface = dev->ifindex;
	if (unlikely(is_fragment(&p))) {
		pass_fragment(&p, (u64)leaving << 63 | (u64)(key.interface & 0x7fffffff) << 32 | key.namespace, key.namespace);
		if (p.offset)
			return 0;
	}
	key.port = p.port;
	if (leaving) {
		struct sock *sk = skb->sk;
		bool own = sk && !skb->skb_iif;

		if (!follows_port(f, p.port)) {
			/* What an unconnected socket sends elsewhere, as port 0: its calls do not tell where they go. */
			if (!own || sk->__sk_common.skc_dport)
				return 0;
			key.port = 0;
		}
		if (own)
			key.cookie = cookie_of_sender(sk);
	} else if (!follows_port(f, p.port)) {
		return 0;
	}
	datagrams = datagrams_in(&p, head, end);
	bytes = (u32)p.udp_length - 8; /* a joined buffer has one header, with the length of all */
	if (leaving)
		count_passage(&departures, &key, datagrams, bytes);
	else
		count_passage(&arrivals, &key, datagrams, bytes);
	return 0;
}

SEC("tp_btf/netif_receive_skb")
int arrive(u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];

	/* Ports of a bridge and the like: what is for this host comes again by the interface above. */
	if (skb->dev->rx_handler)
		return 0;
	return pass(skb, false);
}

SEC("tp_btf/net_dev_queue")
int depart(u64 *ctx)
{
	return pass((void *)ctx[0], true);
}

/* ---- calls that send ---- */

struct send_key {
	u64 cookie;
	u32 namespace;
	s32 errno;
	u16 from_port;
	u16 port;
	u32 unused;
};

struct send_count {
	u64 calls;
	u64 datagrams;
};

struct {
	FIELD(type, PERCPU_HASH);
	FIELD(max_entries, 16384);
	TYPE(key, struct send_key);
	TYPE(value, struct send_count);
} sends SEC(".maps");

SEC("tp_btf/sock_send_length")
int sent(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	int length = (int)ctx[1];
	struct udp_sock *udp = (void *)sk;
	struct filter *f;
	struct send_key key = {};
	struct send_count *count;
	u64 datagrams = 1;
	u16 size = 0;

	if (!is_udp(sk))
		return 0;
	f = the_filter();
	key.port = ntohs(sk->__sk_common.skc_dport);
	if (!f || (key.port && !follows_port(f, key.port)))
		return 0;
	key.namespace = sk->__sk_common.skc_net.net->ns.inum;
	if (!follows_namespace(f, key.namespace))
		return 0;
	key.cookie = cookie_of(sk);
	key.from_port = sk->__sk_common.skc_num;
	key.errno = length < 0 ? -length : 0;
	bpf_probe_read_kernel(&size, sizeof(size), &udp->gso_size);
	if (size && length > 0)
		datagrams = ((u32)length + size - 1) / size;
	count = bpf_map_lookup_elem(&sends, &key);
	if (unlikely(!count)) {
		struct send_count new = {};

		bpf_map_update_elem(&sends, &key, &new, NOEXIST);
		count = bpf_map_lookup_elem(&sends, &key);
		if (!count) {
			miss(1);
			return 0;
		}
	}
	count->calls++;
	count->datagrams += datagrams;
	return 0;
}

/* ---- processors ---- */

struct softirq {
	u64 since;
	u64 total;
};

struct {
	FIELD(type, PERCPU_ARRAY);
	FIELD(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct softirq);
} softirq SEC(".maps");

SEC("tp_btf/softirq_entry")
int softirq_begins(u64 *ctx)
{
	u32 zero = 0;
	struct softirq *time;

	if ((u32)ctx[0] != NET_RX)
		return 0;
	time = bpf_map_lookup_elem(&softirq, &zero);
	if (time)
		time->since = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/softirq_exit")
int softirq_ends(u64 *ctx)
{
	u32 zero = 0;
	struct softirq *time;

	if ((u32)ctx[0] != NET_RX)
		return 0;
	time = bpf_map_lookup_elem(&softirq, &zero);
	if (time && time->since) {
		time->total += bpf_ktime_get_ns() - time->since;
		time->since = 0;
	}
	return 0;
}

INLINE struct reader *reader_of(u32 task)
{
	u32 zero = 0;
	struct reader_bits *bits = bpf_map_lookup_elem(&reader_bits, &zero);

	if (!bits || likely(!(bits->bits[task >> 6 & 255] >> (task & 63) & 1)))
		return NULL;
	return bpf_map_lookup_elem(&readers, &task);
}

SEC("tp_btf/sched_wakeup")
int reader_wakes(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct reader *reader = reader_of(task->pid);

	if (reader && !reader->ready_since)
		reader->ready_since = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sched_switch")
int tasks_switch(u64 *ctx)
{
	struct task_struct *before = (void *)ctx[1];
	struct task_struct *next = (void *)ctx[2];
	struct reader *reader = reader_of(before->pid);

	if (unlikely(reader)) {
		u32 state = has_state ? (u32)ctx[3] : before->__state;

		/* It was preempted, or gave way: it still wants to run. */
		reader->ready_since = ctx[0] & 1 || !state ? bpf_ktime_get_ns() : 0;
	}
	reader = reader_of(next->pid);
	if (unlikely(reader) && reader->ready_since) {
		u64 now = bpf_ktime_get_ns();
		u64 waited = now > reader->ready_since ? now - reader->ready_since : 0;

		reader->ready_since = 0;
		reader->waited += waited;
		if (waited > reader->longest) {
			reader->longest = waited;
			bpf_probe_read_kernel_str(reader->behind, sizeof(reader->behind), before->comm);
		}
	}
	return 0;
}
