/* Datagrams in fragments: each counts with its first one. Those that wait for others are known, for the account to wait for them. */
#pragma once

#include "packet.h"

struct fragment_key {
	u32 from[4];
	u32 to[4];
	u32 id;
	u32 namespace;
};

/* Those of which not all fragments came yet. */
struct waiting {
	u64 since;
	u32 bytes;
	u32 total; /* 0: its last fragment has not come */
	u16 port;  /* 0: its first fragment has not come */
	u16 unused[3];
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

/* A first fragment is lost: its datagram waits no more. */
static __attribute__((noinline)) int lose_fragment(const struct packet *p, u32 namespace)
{
	struct fragment_key key;

	fragment_key(&key, p, namespace);
	bpf_map_delete_elem(&waiting, &key);
	return 0;
}

/* A fragment comes to a namespace. */
static __attribute__((noinline)) int wait_for_fragments(const struct packet *p, u32 namespace)
{
	struct fragment_key key;
	struct waiting *partial;

	fragment_key(&key, p, namespace);
	partial = bpf_map_lookup_elem(&waiting, &key);
	if (!partial || bpf_ktime_get_ns() - partial->since > 30 * SECOND) {
		struct waiting new = {
			.since = bpf_ktime_get_ns(),
			.bytes = p->piece,
			.total = p->more ? 0 : p->offset + p->piece,
			.port = p->port,
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
