/* Samples packets, and tells of those that the kernel drops. Loaded by src/trace/packets, rebuilt by `make bpf`.
 *
 * Counts are exact and per CPU; events hold the first bytes of a packet, in one ring. Nobody is woken by them: user space
 * looks several times a second, and what finds the ring full is counted.
 */
#include "skb.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Set by the loader. */
const volatile u8 has_reason;  /* kfree_skb(skb, location, reason): 5.17 */
const volatile u8 has_rx_sk;   /* kfree_skb(..., rx_sk): 6.11 */
const volatile u32 namespace;  /* the one whose packets count */
const volatile u32 reason_backlog = ~0u;

enum {
	HEADER = 128,
	AF_INET = 2,
	AF_INET6 = 10,
	SOCK_RAW = 3,
	SKB_GSO_UDP = 1 << 16, /* one datagram, to be sent as fragments */
	NO_HEADER = 0xffff,
	SAMPLED = 1,
	DISCARDED = 2,
};

struct {
	FIELD(type, RINGBUF);
	FIELD(max_entries, 1 << 21);
} events SEC(".maps");

struct packet_event {
	u64 location;    /* where it was dropped */
	u32 kind;
	u32 interface;   /* that sampled it; of one dropped: the one it came by, 0: none */
	u32 output;      /* of one dropped: the one it was leaving by, 0: none */
	u32 reason;
	u32 length;      /* of the buffer, from its first header on */
	u32 captured;
	u32 segments;    /* packets in the buffer */
	u32 segment_size;
	u32 times;       /* samples that it is */
	u32 vlan;        /* protocol << 16 | tag, in the order of the network; 0: none beside the bytes */
	u16 protocol;    /* what the bytes begin with: an EtherType, 0: an Ethernet header */
	u8 outgoing;
	u8 unused[5];
	u8 bytes[HEADER];
};

/* Never set: by its type the layout is known to BTF, where a test looks it up. */
struct packet_event *const volatile event_layout;

/* ---- sampling ---- */

/* What is sampled of an interface: the chance of a packet, of 2^32. */
struct sampled_interface {
	u64 chance; /* as configured */
	u64 kept;   /* what is kept of that in a flood: no more than `chance` */
	u32 slot;
	u32 unused;
};

struct {
	FIELD(type, HASH);
	FIELD(max_entries, 4096);
	TYPE(key, u32);
	TYPE(value, struct sampled_interface);
} interfaces SEC(".maps");

/* By slot. */
struct sampled {
	u64 pool;   /* packets that could be sampled */
	u64 chosen; /* samples due at the configured rate */
	u64 shed;   /* of those, left out in a flood */
	u64 lost;   /* of those, that found the ring full */
};

struct {
	FIELD(type, PERCPU_ARRAY);
	FIELD(max_entries, 4096);
	TYPE(key, u32);
	TYPE(value, struct sampled);
} samples SEC(".maps");

SEC("socket")
int sample(struct __sk_buff *skb)
{
	u32 interface = skb->ifindex, segments = skb->gso_segs, length = skb->len;
	struct sampled_interface *rate = bpf_map_lookup_elem(&interfaces, &interface);
	struct packet_event *event;
	struct sampled *counts;
	u64 random, chosen, kept;
	u32 slot;

	if (!rate || skb->pkt_type == PACKET_LOOPBACK)
		return 0;
	slot = rate->slot;
	counts = bpf_map_lookup_elem(&samples, &slot);
	if (!counts)
		return 0;
	if (!segments)
		segments = 1;
	counts->pool += segments;
	random = bpf_get_prandom_u32();
	chosen = (rate->chance * segments + random) >> 32;
	if (likely(!chosen))
		return 0;
	/* The same random number: what is kept is chosen. */
	kept = (rate->kept * segments + random) >> 32;
	counts->chosen += chosen;
	counts->shed += chosen - kept;
	if (!kept)
		return 0;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		counts->lost += kept;
		return 0;
	}
	event->kind = SAMPLED;
	event->location = 0;
	event->reason = 0;
	event->output = 0;
	event->interface = interface;
	event->length = length;
	event->segments = segments;
	event->segment_size = skb->gso_size;
	event->times = kept;
	event->vlan = skb->vlan_present ? skb->vlan_proto << 16 | (skb->vlan_tci & 0xffff) : 0;
	event->protocol = skb->protocol;
	event->outgoing = skb->pkt_type == PACKET_OUTGOING;
	if (length > HEADER)
		length = HEADER;
	event->captured = 0;
	if (length > 0 && !bpf_skb_load_bytes(skb, 0, event->bytes, ((length - 1) & (HEADER - 1)) + 1))
		event->captured = length;
	bpf_ringbuf_submit(event, RINGBUF_NO_WAKEUP);
	return 0;
}

/* ---- drops ---- */

/* By reason. */
struct discarded {
	u64 packets; /* dropped */
	u64 told;    /* buffers of which an event tells */
};

struct {
	FIELD(type, PERCPU_HASH);
	FIELD(max_entries, 1024);
	TYPE(key, u32);
	TYPE(value, struct discarded);
} discards SEC(".maps");

/* How many more events user space wants. */
struct {
	FIELD(type, ARRAY);
	FIELD(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, s64);
} allowance SEC(".maps");

/* Packets that found `discards` full, and the rest of a list of buffers that is freed with its head. */
struct unplaced {
	u64 missed;
	u64 list;
};

struct {
	FIELD(type, PERCPU_ARRAY);
	FIELD(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct unplaced);
} unplaced SEC(".maps");

INLINE u32 packets_in(unsigned char *head, u32 end, u32 length)
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
	/* A device of untrusted origin (virtio, tun) leaves it to be counted. */
	return gso.count ? gso.count : (length + gso.size - 1) / gso.size;
}

INLINE struct discarded *discarded_for(u32 reason)
{
	struct discarded *counts = bpf_map_lookup_elem(&discards, &reason);

	if (unlikely(!counts)) {
		struct discarded none = {};

		bpf_map_update_elem(&discards, &reason, &none, NOEXIST);
		counts = bpf_map_lookup_elem(&discards, &reason);
	}
	return counts;
}

SEC("tp_btf/kfree_skb")
int discard(u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];
	u32 reason = has_reason ? (u32)ctx[2] : 0;
	struct sock *sk = has_rx_sk ? (void *)ctx[3] : NULL;
	struct net_device *dev = skb->dev;
	struct sock *sender = skb->sk;
	u32 zero = 0, inode = 0, index = 0, arrived = skb->skb_iif, end = skb->end, packets, length = skb->len;
	unsigned char *head = skb->head;
	/* Places in the buffer are told by their distance from `head`, for the verifier computes with numbers only. */
	u32 data = (u64)skb->data - (u64)head, tail = skb->tail, from;
	u16 protocol = skb->protocol, mac = skb->mac_header, network = skb->network_header;
	struct packet_event *event;
	struct discarded *counts;
	struct unplaced *own;
	bool outgoing;
	s64 *left;

	own = bpf_map_lookup_elem(&unplaced, &zero);
	if (!own)
		return 0;
	if (unlikely(own->list)) {
		if (own->list == (u64)skb) {
			own->list = (u64)skb->next;
			return 0;
		}
	}
	/* What has no protocol was never a packet (Unix sockets, netlink). Taps and raw sockets lose copies. */
	if (!protocol)
		return 0;
	if (sk && ((sk->__sk_common.skc_family != AF_INET && sk->__sk_common.skc_family != AF_INET6) || sk->sk_type == SOCK_RAW))
		return 0;
	if (sk) {
		inode = sk->__sk_common.skc_net.net->ns.inum;
	} else {
		if (dev) {
			/* In a socket's queue there is something else in its place, which reads as 0. */
			inode = dev->nd_net.net->ns.inum;
			index = dev->ifindex;
		}
		if (!inode && sender) {
			index = 0;
			inode = sender->__sk_common.skc_net.net->ns.inum;
		}
	}
	if (inode != namespace)
		return 0;

	packets = packets_in(head, end, length);
	if (unlikely(skb->data_len)) {
		struct skb_shared_info *info = (void *)(head + end);
		u64 rest = 0;
		u32 references = 0;

		bpf_probe_read_kernel(&rest, sizeof(rest), &info->frag_list);
		bpf_probe_read_kernel(&references, sizeof(references), &info->dataref);
		own->list = (references & 0xffff) == 1 ? rest : 0;
	}
	counts = discarded_for(reason);
	if (!counts) {
		own->missed += packets;
		return 0;
	}
	counts->packets += packets;
	left = bpf_map_lookup_elem(&allowance, &zero);
	if (!left || *left <= 0)
		return 0;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event)
		return 0;
	__sync_fetch_and_add(left, -1);
	counts->told++;

	/* As bpf/loss.bpf.c has it. */
	outgoing = !sk && !arrived && !(mac != NO_HEADER && mac < data) && reason != reason_backlog;
	event->kind = DISCARDED;
	event->location = ctx[1];
	event->reason = reason;
	event->interface = outgoing ? 0 : arrived ? arrived : index;
	event->output = outgoing ? index : arrived && index && index != arrived ? index : 0;
	event->segments = packets;
	event->segment_size = 0;
	event->times = 1;
	event->vlan = 0;
	event->outgoing = outgoing;
	/* From the Ethernet header where there is one before the network's; else from that. */
	from = data;
	event->protocol = protocol;
	if (network && network != NO_HEADER && network < tail) {
		from = network;
		if (mac != NO_HEADER && network - mac == 14) {
			from = mac;
			event->protocol = 0;
		}
	}
	event->length = length + data - from;
	length = tail > from ? tail - from : 0;
	if (length > HEADER)
		length = HEADER;
	event->captured = 0;
	if (length > 0 && !bpf_probe_read_kernel(event->bytes, ((length - 1) & (HEADER - 1)) + 1, head + from))
		event->captured = length;
	bpf_ringbuf_submit(event, RINGBUF_NO_WAKEUP);
	return 0;
}
