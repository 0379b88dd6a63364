/* Headers of UDP datagrams, read with suspicion: a buffer may be anything, at any stage. */
#pragma once

#include "follow.h"

enum { UNICAST, GROUP, BROADCAST };

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
	u8 cast;
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
	p->cast = h->bytes[24] == 0xff ? GROUP : UNICAST;
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
	if (at + 20 > end)
		return false;
	if (loads_directly) {
		/* Faults read as 0. */
		for (int i = 0; i < 7; i++)
			h.words[i] = ((const volatile u32 *)at)[i];
	} else if (bpf_probe_read_kernel(&h, 28, at)) {
		return false;
	}
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
	p->cast = h.bytes[16] >> 4 == 14 ? GROUP : UNICAST;
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

	if (loads_directly) {
		gso.size = *(volatile u16 *)&info->gso_size;
		gso.count = *(volatile u16 *)&info->gso_segs;
	} else if (bpf_probe_read_kernel(&gso, sizeof(gso), &info->gso_size)) {
		return 1;
	}
	if (likely(!gso.size))
		return 1;
	bpf_probe_read_kernel(&type, sizeof(type), &info->gso_type);
	if (type & SKB_GSO_UDP)
		return 1;
	if (gso.count)
		return gso.count;
	/* A device of untrusted origin (virtio, tun) leaves it to be counted. */
	return ((u32)p->udp_length - 8 + gso.size - 1) / gso.size;
}

/* To whom it came: the link layer tells broadcasts, and copies that a host gives itself are of such as well. */
INLINE u32 cast_of(struct sk_buff *skb, const struct packet *p)
{
	u64 type = BITS(skb, pkt_type);

	return p->cast == UNICAST && (type == PACKET_BROADCAST || type == PACKET_LOOPBACK) ? BROADCAST : p->cast;
}
