/* What the loader sets, what is followed, and how is counted. */
#pragma once

#include "bpf.h"

/* Set by the loader, from the running kernel's BTF; constants to the verifier, which leaves out what cannot run. */
const volatile u8 has_reason;   /* kfree_skb(skb, location, reason): 5.17 */
const volatile u8 has_rx_sk;    /* kfree_skb(..., rx_sk): 6.11 */
const volatile u8 loads_directly; /* plain loads through untyped pointers, instead of a helper: 6.17 */
const volatile u8 follow_queue; /* whether sockets are followed: a drop tells their level, too */
const volatile u32 gro_flag;    /* number of UDP_FLAGS_GRO_ENABLED in udp_sock.udp_flags, 6.7 */
const volatile u32 reason_backlog = ~0u;
const volatile u32 reason_receive_buffer = ~0u;
const volatile u32 reason_otherhost = ~0u;

enum {
	AF_INET = 2,
	AF_INET6 = 10,
	SOCK_DGRAM = 2,
	UDP = 17,
	SKB_GSO_UDP = 1 << 16, /* one datagram, to be sent as fragments */
	MSG_PEEK = 2,
	MSG_ERRQUEUE = 0x2000,
	NO_HEADER = 0xffff,
	PACKET_BROADCAST = 1,
	PACKET_OTHERHOST = 3,
	PACKET_LOOPBACK = 5,
	IFF_BRIDGE_PORT = 1 << 9,
	IFF_OVS_DATAPATH = 1 << 10,
};

#define SECOND 1000000000ull
#define MILLISECOND 1000000ull

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

/* Events that found a map full, by what they are. */
struct tallies {
	u64 drops;
	u64 queues;
	u64 passages;
	u64 sends;
	u64 hashed; /* sockets that were given a state in the hash map: those that are not there gave way, or were removed */
	u64 sourced; /* keys that were given a place in `sources`, likewise */
};

struct {
	FIELD(type, PERCPU_ARRAY);
	FIELD(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct tallies);
} tallies SEC(".maps");

#define MISS(what, count)                                                                              \
	({                                                                                             \
		u32 zero_ = 0;                                                                         \
		struct tallies *tallies_ = bpf_map_lookup_elem(&tallies, &zero_);                      \
		if (tallies_)                                                                          \
			tallies_->what += (count);                                                     \
	})

/* Counts by key. The first keys of each processor get slots, found without a call; the others go to a hash map. A slot
 * never changes its key, and has it before it counts. User space adds both up. */
enum { SLOTS = 64 };

#define COUNTS(name, key_type, entries, kind)                                                                \
	struct name##_slot {                                                                           \
		struct counts counts;                                                                  \
		key_type key;                                                                          \
	};                                                                                             \
	struct {                                                                                       \
		FIELD(type, PERCPU_ARRAY);                                                             \
		FIELD(max_entries, SLOTS);                                                             \
		TYPE(key, u32);                                                                        \
		TYPE(value, struct name##_slot);                                                       \
	} name##_slots SEC(".maps");                                                                   \
	struct {                                                                                       \
		FIELD(type, kind);                                                                     \
		FIELD(max_entries, entries);                                                           \
		TYPE(key, key_type);                                                                   \
		TYPE(value, struct counts);                                                            \
	} name SEC(".maps");                                                                           \
	INLINE bool count_##name(key_type *key, u32 slot, u64 first, u64 second)                       \
	{                                                                                              \
		struct name##_slot *s;                                                                 \
                                                                                                       \
		slot &= SLOTS - 1;                                                                     \
		s = bpf_map_lookup_elem(&name##_slots, &slot);                                         \
		if (s && !s->counts.first)                                                             \
			s->key = *key;                                                                 \
		if (s && likely(same((u64 *)&s->key, (u64 *)key, sizeof(*key) / 8))) {                 \
			s->counts.first += first;                                                      \
			s->counts.second += second;                                                    \
			return true;                                                                   \
		}                                                                                      \
		return count_hashed(&name, key, first, second);                                        \
	}

struct counts {
	u64 first; /* datagrams, or calls: never 0 */
	u64 second;
};

INLINE bool same(const u64 *one, const u64 *other, u32 words)
{
	u64 differ = 0;

	for (u32 i = 0; i < words; i++)
		differ |= one[i] ^ other[i];
	return !differ;
}

INLINE bool count_hashed(void *map, void *key, u64 first, u64 second)
{
	struct counts *counts = bpf_map_lookup_elem(map, key);

	if (unlikely(!counts)) {
		struct counts none = {};

		bpf_map_update_elem(map, key, &none, NOEXIST);
		counts = bpf_map_lookup_elem(map, key);
		if (!counts)
			return false;
	}
	counts->first += first;
	counts->second += second;
	return true;
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
