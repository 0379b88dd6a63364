/* What came from whom, and what of it was lost where. */
#pragma once

#include "packet.h"

/* Set by the loader. */
const volatile u8 by_source;
const volatile u32 source_mask_v4;
const volatile u32 source_mask_v6[4];

struct source_key {
	u32 from[4];  /* as far as the mask goes */
	u64 cookie;   /* as in a drop's key */
	u64 location; /* 0: it came to a namespace */
	u32 namespace;
	u32 reason;
	u16 port;
	u8 version;
	u8 outgoing;
	u32 unused;
};

/* Addresses are the senders' choice: those that were used least lately give way, and user space tells how many did. */
struct {
	FIELD(type, LRU_PERCPU_HASH);
	FIELD(max_entries, 16384);
	TYPE(key, struct source_key);
	TYPE(value, struct counts);
} sources SEC(".maps");

static __attribute__((noinline)) int count_source(const struct packet *p, struct source_key *key, u64 datagrams)
{
	struct counts *counts;

	key->unused = 0;
	key->version = p->version;
	if (p->version == 6) {
		for (int i = 0; i < 4; i++)
			key->from[i] = p->from[i] & source_mask_v6[i];
	} else {
		key->from[0] = p->from[0] & source_mask_v4;
		key->from[1] = key->from[2] = key->from[3] = 0;
	}
	counts = bpf_map_lookup_elem(&sources, key);
	if (unlikely(!counts)) {
		struct counts none = {};

		if (!bpf_map_update_elem(&sources, key, &none, NOEXIST))
			MISS(sourced, 1);
		counts = bpf_map_lookup_elem(&sources, key);
		if (!counts)
			return 0;
	}
	counts->first += datagrams;
	counts->second += 1;
	return 0;
}
