/* Counts UDP datagrams that the kernel drops, queues, receives and sends. Loaded by src/trace, rebuilt by `make bpf`.
 *
 * Every count is kept in maps that user space reads; nothing is sent to it per datagram. What many processors count is
 * counted per CPU; only the state of one socket is shared by those that feed and read this socket. A program never
 * interrupts itself on one processor (the kernel skips it and counts that as a miss), so per-CPU values need no lock.
 */
#include "fragments.h"
#include "packet.h"
#include "queues.h"
#include "samples.h"
#include "sources.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* ---- drops ---- */

struct drop_key {
	u64 location;
	u64 cookie;
	u32 namespace;
	u32 interface;
	u32 reason;
	u16 port;
	u8 outgoing;
	u8 unused;
};

/* Ports are others' choice: those that were used least lately give way. Places and reasons nobody outside chooses: there all are
 * counted, so that user space knows how many gave way. */
COUNTS(drops, struct drop_key, 16384, LRU_PERCPU_HASH)

struct place_key {
	u64 location;
	u32 namespace;
	u32 reason;
	u32 outgoing;
	u32 unused;
};

COUNTS(places, struct place_key, 4096, PERCPU_HASH)

/* The rest of a list of buffers that is freed with its head, which was counted for all. */
struct {
	FIELD(type, PERCPU_ARRAY);
	FIELD(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, u64);
} freed_list SEC(".maps");

INLINE void count_drop(struct drop_key *key, u64 datagrams)
{
	struct place_key place = {
		.location = key->location,
		.namespace = key->namespace,
		.reason = key->reason,
		.outgoing = key->outgoing,
	};
	u32 slot = key->location >> 4 ^ key->reason ^ key->namespace;

	count_drops(key, slot ^ key->cookie ^ key->port, datagrams, 1);
	if (!count_places(&place, slot, datagrams, 1))
		MISS(drops, datagrams);
}

struct passage_key {
	u64 cookie;
	u32 namespace;
	u32 interface;
	u32 port;
	u32 cast; /* of arrivals */
};

COUNTS(arrivals, struct passage_key, 16384, PERCPU_HASH)
COUNTS(departures, struct passage_key, 16384, PERCPU_HASH)

/* Whether tc (mirred redirect) or nftables (fwd) took it out of its way into this namespace, where it was counted. */
INLINE bool is_diverted(struct sk_buff *skb)
{
	if (!exists(skb->redirected) || !exists(skb->from_ingress))
		return false;
	return skb->skb_iif && BITS(skb, redirected) && BITS(skb, from_ingress);
}

/* What was diverted and is dropped before it comes back (by the queue of an ifb) has come all the same. */
static __attribute__((noinline)) int undo_divert(u32 namespace, u32 interface, struct packet *p, u64 datagrams, u32 cast)
{
	struct passage_key key = { .namespace = namespace, .interface = interface, .cast = cast };

	if (!p)
		return 0;
	key.port = p->port;
	if (!count_arrivals(&key, namespace ^ interface ^ p->port, datagrams, (u32)p->udp_length - 8))
		MISS(passages, datagrams);
	if (by_source) {
		struct source_key source = { .namespace = namespace, .port = p->port };

		count_source(p, &source, datagrams);
	}
	return 0;
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
	unsigned char *head, *data, *network, *limit, *packet;
	u32 end, datagrams, zero = 0;
	u16 mac;
	u64 *list;

	if (!f)
		return 0;
	/* Drops by other protocols' sockets; taps (AF_PACKET, raw sockets) lose copies, not datagrams. */
	if (sk && (!is_udp(sk) || (!follows_port(f, sk->__sk_common.skc_num) && !skb->data_len)))
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
	packet = network;
	if (network == head || !parse_at(network, limit, &p)) {
		/* Fresh from a driver: the network header is marked later (__netif_receive_skb_core). */
		if (network == data || !parse_at(data, limit, &p))
			return 0;
		packet = data;
	}

	end = skb->end;
	if (unlikely(skb->data_len)) {
		/* Followed or not: what hangs on it comes next. */
		struct skb_shared_info *info = (void *)(head + end);
		u64 rest = 0;
		u32 references = 0;

		bpf_probe_read_kernel(&rest, sizeof(rest), &info->frag_list);
		bpf_probe_read_kernel(&references, sizeof(references), &info->dataref);
		*list = (references & 0xffff) == 1 ? rest : 0;
	}

	/* What an interface overhears was to come to somebody else. What is dropped at a bridge's port is on its way there. */
	if (p.offset || reason == reason_otherhost || !follows_port(f, p.port))
		return 0;

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
	if (key.namespace && !follows_namespace(f, key.namespace))
		return 0;

	if (unlikely(p.more))
		lose_fragment(&p, key.namespace);
	datagrams = datagrams_in(&p, head, end);
	if (unlikely(is_diverted(skb)) && key.namespace)
		undo_divert(key.namespace, skb->skb_iif, &p, datagrams, cast_of(skb, &p));
	key.location = ctx[1];
	key.reason = reason;
	key.port = p.port;
	if (follow_queue && reason == reason_receive_buffer && sk) {
		struct socket_state *s = find_socket(key.cookie);

		if (s) {
			__sync_fetch_and_add(&s->episode, skb->truesize);
			__sync_fetch_and_add(&s->dropped, 1);
		}
	}
	if (by_source) {
		struct source_key source = {
			.cookie = sk ? key.cookie : 0,
			.location = key.location,
			.namespace = key.namespace,
			.reason = reason,
			.port = p.port,
			.outgoing = key.outgoing,
		};

		count_source(&p, &source, datagrams);
	}
	if (samples_each) {
		struct sample *s = take_sample(key.location, reason, key.outgoing);

		if (s) {
			s->location = key.location;
			s->cookie = key.cookie;
			s->namespace = key.namespace;
			s->interface = key.interface;
			s->reason = reason;
			s->outgoing = key.outgoing;
			s->port = p.port;
			s->from_port = p.from_port;
			copy_sample(ctx, s, packet, limit, skb->len + (u32)(data - packet));
			*(volatile u32 *)&s->ready = 1;
		}
	}
	count_drop(&key, datagrams);
	return 0;
}

/* ---- what passes ---- */

/* What came and was sent elsewhere at once has not come: if it comes back (ifb), it is counted then. */
static __attribute__((noinline)) int divert(struct passage_key *key, u64 datagrams, u64 bytes)
{
	u32 slot = (key->namespace ^ key->interface ^ key->port) & (SLOTS - 1);
	struct arrivals_slot *s = bpf_map_lookup_elem(&arrivals_slots, &slot);
	struct counts *counts;

	if (s && same((u64 *)&s->key, (u64 *)key, sizeof(*key) / 8))
		counts = &s->counts;
	else
		counts = bpf_map_lookup_elem(&arrivals, key);
	if (counts && counts->first >= datagrams && counts->second >= bytes) {
		counts->first -= datagrams;
		counts->second -= bytes;
	}
	return 0;
}

INLINE int pass(struct sk_buff *skb, bool leaving)
{
	struct filter *f = the_filter();
	struct net_device *dev = skb->dev;
	unsigned char *head = skb->head;
	struct passage_key key = {};
	struct packet p;
	u32 end = skb->end, datagrams, bytes, slot;

	if (!f || !dev || (!leaving && BITS(skb, pkt_type) == PACKET_OTHERHOST))
		return 0;
	key.namespace = dev->nd_net.net->ns.inum;
	if (!follows_namespace(f, key.namespace))
		return 0;
	if (!parse_at(leaving ? head + skb->network_header : skb->data, head + skb->tail, &p))
		return 0;
	key.interface = dev->ifindex;
	if (unlikely(is_fragment(&p))) {
		if (!leaving)
			wait_for_fragments(&p, key.namespace);
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
	} else {
		if (!follows_port(f, p.port))
			return 0;
		key.cast = cast_of(skb, &p);
	}
	datagrams = datagrams_in(&p, head, end);
	bytes = (u32)p.udp_length - 8; /* a joined buffer has one header, with the length of all */
	if (unlikely(is_diverted(skb))) {
		struct passage_key before = {
			.namespace = key.namespace, .interface = skb->skb_iif, .port = p.port, .cast = cast_of(skb, &p)
		};

		divert(&before, datagrams, bytes);
		if (by_source) {
			struct source_key source = { .namespace = key.namespace, .port = p.port };

			count_source(&p, &source, -(u64)datagrams);
		}
	}
	if (by_source && !leaving) {
		struct source_key source = { .namespace = key.namespace, .port = p.port };

		count_source(&p, &source, datagrams);
	}
	slot = key.cookie ^ key.namespace ^ key.interface ^ key.port;
	if (!(leaving ? count_departures(&key, slot, datagrams, bytes) : count_arrivals(&key, slot, datagrams, bytes)))
		MISS(passages, datagrams);
	return 0;
}

INLINE u32 device_flags(struct net_device *dev)
{
	/* A bit field in some kernels, of which the low half is read. */
	return *(u32 *)((unsigned char *)dev + __builtin_preserve_field_info(dev->priv_flags, 0));
}

SEC("tp_btf/netif_receive_skb")
int arrive(u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];

	/* What is for this host comes again by the bridge. Of other lower devices (bonds, macvlan) this is the only sight. */
	if (skb->dev->rx_handler && device_flags(skb->dev) & (IFF_BRIDGE_PORT | IFF_OVS_DATAPATH))
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

COUNTS(sends, struct send_key, 16384, PERCPU_HASH)

SEC("tp_btf/sock_send_length")
int sent(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	int length = (int)ctx[1];
	struct udp_sock *udp = (void *)sk;
	struct filter *f;
	struct send_key key = {};
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
	use_socket(key.cookie);
	key.from_port = sk->__sk_common.skc_num;
	key.errno = length < 0 ? -length : 0;
	bpf_probe_read_kernel(&size, sizeof(size), &udp->gso_size);
	if (size && length > 0)
		datagrams = ((u32)length + size - 1) / size;
	if (!count_sends(&key, key.cookie ^ key.port ^ (u32)key.errno, 1, datagrams))
		MISS(sends, 1);
	return 0;
}
