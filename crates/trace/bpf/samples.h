/* The first buffers that were dropped at each place: headers, and how the kernel came there. */
#pragma once

#include "packet.h"

/* Set by the loader: so many at each place; 0: none. */
const volatile u32 samples_each;

enum { SAMPLE_BYTES = 128, SAMPLE_FRAMES = 24 };

struct sampled_key {
	u64 location;
	u32 reason;
	u32 outgoing;
};

struct sample {
	u64 time; /* ktime */
	u64 location;
	u64 cookie;
	u64 stack[SAMPLE_FRAMES]; /* return addresses, innermost first */
	u32 namespace;
	u32 interface;
	u32 reason;
	u32 outgoing;
	u16 port;
	u16 from_port;
	u32 length;   /* of the packet, from its IP header on */
	u32 captured; /* bytes of it */
	u32 ready;    /* the last that is written */
	u8 bytes[SAMPLE_BYTES];
};

/* Buffers met at each place. */
struct {
	FIELD(type, HASH);
	FIELD(max_entries, 512);
	TYPE(key, struct sampled_key);
	TYPE(value, u64);
} sampled SEC(".maps");

/* Samples taken. */
struct {
	FIELD(type, ARRAY);
	FIELD(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, u64);
} samples_taken SEC(".maps");

struct {
	FIELD(type, ARRAY);
	FIELD(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct sample);
} samples SEC(".maps");

/* Where a sample is to go; NULL: there are enough of this place, or of all. */
static __attribute__((noinline)) struct sample *take_sample(u64 location, u32 reason, u32 outgoing)
{
	struct sampled_key key = { .location = location, .reason = reason, .outgoing = outgoing };
	u64 *met = bpf_map_lookup_elem(&sampled, &key);
	u64 *taken;
	u32 zero = 0, slot;

	if (unlikely(!met)) {
		u64 none = 0;

		bpf_map_update_elem(&sampled, &key, &none, NOEXIST);
		met = bpf_map_lookup_elem(&sampled, &key);
		if (!met)
			return NULL;
	}
	if (__sync_fetch_and_add(met, 1) >= samples_each)
		return NULL;
	taken = bpf_map_lookup_elem(&samples_taken, &zero);
	if (!taken)
		return NULL;
	slot = __sync_fetch_and_add(taken, 1);
	return bpf_map_lookup_elem(&samples, &slot);
}

INLINE void copy_sample(void *ctx, struct sample *s, const unsigned char *at, const unsigned char *limit, u32 length)
{
	u64 bytes = limit - at;

	if (bytes > SAMPLE_BYTES)
		bytes = SAMPLE_BYTES;
	s->time = bpf_ktime_get_ns();
	s->length = length;
	s->captured = bytes;
	bpf_probe_read_kernel(s->bytes, bytes, at);
	bpf_get_stack(ctx, s->stack, sizeof(s->stack), 0);
}
