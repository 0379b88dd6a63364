/* Datagrams in fragments: each is lost once, where its first piece was. */
#pragma once

#include "packet.h"

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
