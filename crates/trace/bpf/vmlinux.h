/* The kernel's types that loss.bpf.c reads, cut down to the members it uses. Only names and kinds count: each access is
 * recorded (CO-RE), and the loader puts in the offset of the running kernel. Members that some kernels lack are asked
 * for with `exists` before they are read. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed int s32;
typedef signed long long s64;
typedef _Bool bool;

#define NULL ((void *)0)
#define true 1
#define false 0

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	s64 counter;
} atomic64_t;

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	u16 skc_dport;
	u16 skc_num;
	unsigned short skc_family;
	possible_net_t skc_net;
	atomic64_t skc_cookie;
};

struct sk_buff;
struct socket;

struct sk_buff_head {
	struct sk_buff *next;
	struct sk_buff *prev;
	u32 qlen;
};

struct sock {
	struct sock_common __sk_common;
	struct sk_buff_head sk_receive_queue;
	struct {
		atomic_t rmem_alloc;
	} sk_backlog;
	int sk_rcvbuf;
	u16 sk_protocol;
	u16 sk_type;
	struct socket *sk_socket;
	void *sk_user_data;
};

struct socket {
	struct sock *sk;
};

struct inet_sock {
	struct sock sk;
};

struct udp_sock {
	struct inet_sock inet;
	unsigned long udp_flags;
	u16 gso_size;
	struct sk_buff_head reader_queue;
};

struct net_device {
	int ifindex;
	void *rx_handler;
	unsigned long priv_flags : 32;
	possible_net_t nd_net;
};

struct skb_shared_info {
	u16 gso_size;
	u16 gso_segs;
	struct sk_buff *frag_list;
	unsigned int gso_type;
	atomic_t dataref;
};

struct sk_buff {
	struct sk_buff *next;
	struct net_device *dev;
	struct sock *sk;
	unsigned int len;
	unsigned int data_len;
	int skb_iif;
	u8 pkt_type : 3;
	u8 redirected : 1;
	u8 from_ingress : 1;
	u16 protocol;
	u16 network_header;
	u16 mac_header;
	unsigned int tail;
	unsigned int end;
	unsigned char *head;
	unsigned char *data;
	unsigned int truesize;
};

struct task_struct {
	int pid;
	int tgid;
};

#pragma clang attribute pop
