/* Which sockets the descendants of one process use. */
#pragma once

#include "follow.h"

/* The process, as it is numbered in its own PID namespace; 0: nobody's descendants are told. Set by the loader. */
const volatile u32 ancestor;
const volatile u64 ancestor_dev;
const volatile u64 ancestor_ino;

struct pid_in_namespace {
	u32 pid;
	u32 tgid;
};

struct {
	FIELD(type, HASH);
	FIELD(max_entries, 4096);
	TYPE(key, u32);
	TYPE(value, u8);
} descendants SEC(".maps");

/* Sockets that they have sent from or read, by cookie. */
struct {
	FIELD(type, LRU_HASH);
	FIELD(max_entries, 16384);
	TYPE(key, u64);
	TYPE(value, u32);
} used SEC(".maps");

/* A process is numbered differently in each PID namespace: the ancestor by its own, the others by the first. */
SEC("tp_btf/sched_process_fork")
int task_forks(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	struct pid_in_namespace own = {};
	u32 tgid = parent->tgid, number = child->tgid;
	u8 one = 1;

	if (number == tgid)
		return 0;
	if (!bpf_map_lookup_elem(&descendants, &tgid) &&
	    (bpf_get_ns_current_pid_tgid(ancestor_dev, ancestor_ino, &own, sizeof(own)) || own.tgid != ancestor))
		return 0;
	bpf_map_update_elem(&descendants, &number, &one, ANY);
	return 0;
}

INLINE void use_socket(u64 cookie)
{
	u32 tgid;

	if (!ancestor)
		return;
	tgid = bpf_get_current_task_btf()->tgid;
	if (bpf_map_lookup_elem(&descendants, &tgid) && !bpf_map_lookup_elem(&used, &cookie))
		bpf_map_update_elem(&used, &cookie, &tgid, ANY);
}
