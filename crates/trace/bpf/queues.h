/* Receive queues of sockets: their levels, and how long nobody read. */
#pragma once

#include "follow.h"
#include "tasks.h"

enum {
	JOINS = 1,  /* UDP_GRO is on: one read may return many datagrams */
	JOINED = 2, /* and was seen to do so: `segment` is the size of each */
};

struct socket_state {
	u64 cookie;  /* 0: an unused slot */
	u64 born;    /* when it was given this state */
	/* written by those who put datagrams in */
	u64 enqueued;
	u64 waiting_since; /* when the queue stopped to be empty, or was read last; 0: nothing waits */
	u32 level;
	u32 level_max;
	u32 receive_buffer;
	u32 segment; /* bytes of its datagrams; 0: not seen yet */
	u8 joined;   /* JOINS, JOINED */
	u8 mixed;    /* and they were of different sizes */
	u16 port;
	u32 episodes;
	u64 episode; /* memory of what was dropped since the queue was empty last: bytes of truesize */
	u64 dropped; /* buffers that found it full */
	u32 before;  /* 1 more than were in the queue when it was given this state; 0: not known */
	u32 unused[13];
	/* written by those who read */
	u64 reads __attribute__((aligned(64)));
	u64 bytes;
	u64 datagrams;
	u64 longest_stall;
	u64 stalled;
	u32 reader;
	u32 namespace;
	u64 waiting; /* time in which anything was in the queue */
	u64 episode_max;
};

/* The first sockets have slots by their cookies, found without a call; the others are in a hash map, in which those that
 * were used least lately give way. User space removes those that are closed: first a slot's state, then the claim to it. */
enum { SOCKET_SLOTS = 256 };

struct {
	FIELD(type, ARRAY);
	FIELD(max_entries, SOCKET_SLOTS);
	TYPE(key, u32);
	TYPE(value, struct socket_state);
} socket_slots SEC(".maps");

/* Of each slot: 1 where it is taken, or about to be. */
struct {
	FIELD(type, ARRAY);
	FIELD(max_entries, SOCKET_SLOTS);
	TYPE(key, u32);
	TYPE(value, u64);
} socket_claims SEC(".maps");

struct {
	FIELD(type, LRU_HASH);
	FIELD(max_entries, 32768);
	TYPE(key, u64);
	TYPE(value, struct socket_state);
} sockets SEC(".maps");

INLINE bool is_udp(struct sock *sk)
{
	return sk->sk_protocol == UDP && sk->sk_type == SOCK_DGRAM;
}

static __attribute__((noinline)) struct socket_state *follow_hashed(u64 cookie, u16 port, u32 namespace)
{
	struct socket_state *s = bpf_map_lookup_elem(&sockets, &cookie);

	if (likely(s))
		return s;
	struct socket_state new = {
		.cookie = cookie, .born = bpf_ktime_get_ns(), .port = port, .namespace = namespace
	};

	if (!bpf_map_update_elem(&sockets, &cookie, &new, NOEXIST))
		MISS(hashed, 1);
	s = bpf_map_lookup_elem(&sockets, &cookie);
	if (!s)
		MISS(queues, 1);
	return s;
}

INLINE struct socket_state *follow_socket(u64 cookie, u16 port, u32 namespace)
{
	u32 slot = cookie & (SOCKET_SLOTS - 1);
	struct socket_state *s = bpf_map_lookup_elem(&socket_slots, &slot);
	u64 *claim;

	if (!s)
		return NULL;
	if (likely(*(volatile u64 *)&s->cookie == cookie))
		return s;
	claim = s->cookie ? NULL : bpf_map_lookup_elem(&socket_claims, &slot);
	if (!claim || __sync_lock_test_and_set(claim, 1))
		return follow_hashed(cookie, port, namespace);
	s->port = port;
	s->namespace = namespace;
	s->born = bpf_ktime_get_ns();
	*(volatile u64 *)&s->cookie = cookie;
	return s;
}

INLINE struct socket_state *find_socket(u64 cookie)
{
	u32 slot = cookie & (SOCKET_SLOTS - 1);
	struct socket_state *s = bpf_map_lookup_elem(&socket_slots, &slot);

	return s && likely(s->cookie == cookie) ? s : bpf_map_lookup_elem(&sockets, &cookie);
}

/* What was in the queue before the first that is counted. `leaves`: one has just
 * left it; else one has just come. */
static __attribute__((noinline)) int learn_before(struct socket_state *s, struct sock *sk, bool leaves)
{
	struct udp_sock *udp = (void *)sk;
	u32 read = 0, waits = sk->sk_receive_queue.qlen;

	if (!s)
		return 0;
	if (exists(udp->reader_queue))
		bpf_probe_read_kernel(&read, sizeof(read), &udp->reader_queue.qlen);
	waits += read;
	s->before = 1 + (leaves ? waits + 1 : waits ? waits - 1 : 0);
	return 0;
}

INLINE void measure(struct socket_state *s, u32 level, u32 buffer)
{
	s->level = level;
	s->receive_buffer = buffer;
	if (level > s->level_max)
		s->level_max = level;
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
	if (loads_directly) {
		/* To the verifier this is a `struct sock`, which ends before; through another pointer any address will do. */
		const unsigned char *any = sk->sk_user_data;
		u64 away = (u64)&udp->udp_flags - (u64)any;

		asm volatile("" : "+r"(away));
		flags = *(volatile u64 *)(any + away);
	} else {
		bpf_probe_read_kernel(&flags, sizeof(flags), &udp->udp_flags);
	}
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
	if (unlikely(!s->before))
		learn_before(s, sk, false);
	__sync_fetch_and_add(&s->enqueued, 1);
	if (!s->waiting_since)
		s->waiting_since = bpf_ktime_get_ns();
	/* Since 6.18 a buffer is first counted in udp_prod_queue, and still is when this is called: only this sum has each
	 * buffer once. */
	level = sk->sk_backlog.rmem_alloc.counter;
	buffer = sk->sk_rcvbuf;
	/* Where the setting cannot be read, each buffer is looked at. */
	joined = s->joined || !gro_flag || (s->enqueued < 2 && joins(sk));
	if (unlikely(joined)) {
		last = sk->sk_receive_queue.prev;
		if ((void *)last != (void *)&sk->sk_receive_queue)
			learn_segment(s, last);
		if (gro_flag)
			s->joined |= JOINS;
	}
	measure(s, level, buffer);
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
	u32 namespace, level;
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
	if (unlikely(!s->before))
		learn_before(s, sk, true);
	__sync_fetch_and_add(&s->reads, 1);
	__sync_fetch_and_add(&s->bytes, length);
	if (unlikely(joins(sk) || s->joined & JOINED)) {
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
		__sync_fetch_and_add(&s->waiting, stall);
		if (stall > MILLISECOND)
			__sync_fetch_and_add(&s->stalled, stall);
	}
	if (unlikely(s->episode) && !level) {
		u64 episode = __sync_lock_test_and_set(&s->episode, 0);

		s->episodes++;
		if (episode > s->episode_max)
			s->episode_max = episode;
	}
	measure(s, level, sk->sk_rcvbuf);
	use_socket(s->cookie);
	s->reader = bpf_get_current_task_btf()->pid;
	return 0;
}
