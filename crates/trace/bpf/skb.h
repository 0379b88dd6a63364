/* Buffers as programs meet them: what a packet filter is told of one, and what is read of one that is dropped. */
#pragma once

#include "bpf.h"

/* include/uapi/linux/bpf.h: a view that the verifier translates, whose offsets are fixed. */
struct __sk_buff {
	u32 len;
	u32 pkt_type;
	u32 mark;
	u32 queue_mapping;
	u32 protocol;
	u32 vlan_present;
	u32 vlan_tci;
	u32 vlan_proto;
	u32 priority;
	u32 ingress_ifindex;
	u32 ifindex;
	u32 tc_index;
	u32 cb[5];
	u32 hash;
	u32 tc_classid;
	u32 data;
	u32 data_end;
	u32 napi_id;
	u32 family;
	u32 remote_ip4;
	u32 local_ip4;
	u32 remote_ip6[4];
	u32 local_ip6[4];
	u32 remote_port;
	u32 local_port;
	u32 data_meta;
	u64 flow_keys;
	u64 tstamp;
	u32 wire_len;
	u32 gso_segs;
	u64 sk;
	u32 gso_size;
};

enum {
	RINGBUF = 27,
	RINGBUF_NO_WAKEUP = 1,
	PACKET_OUTGOING = 4,
	PACKET_LOOPBACK = 5,
};

static u32 (*bpf_get_prandom_u32)(void) = (void *)7;
static long (*bpf_skb_load_bytes)(const void *skb, u32 offset, void *to, u32 bytes) = (void *)26;
static void *(*bpf_ringbuf_reserve)(void *ring, u64 bytes, u64 flags) = (void *)131;
static void (*bpf_ringbuf_submit)(void *event, u64 flags) = (void *)132;
