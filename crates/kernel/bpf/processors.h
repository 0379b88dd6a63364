/* Time in the receive path, and readers that wait for a processor. */
#pragma once

#include "queues.h"

struct softirq {
	u64 since;
	u64 total;
};

struct {
	FIELD(type, PERCPU_ARRAY);
	FIELD(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct softirq);
} softirq SEC(".maps");

SEC("tp_btf/softirq_entry")
int softirq_begins(u64 *ctx)
{
	u32 zero = 0;
	struct softirq *time;

	if ((u32)ctx[0] != NET_RX)
		return 0;
	time = bpf_map_lookup_elem(&softirq, &zero);
	if (time)
		time->since = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/softirq_exit")
int softirq_ends(u64 *ctx)
{
	u32 zero = 0;
	struct softirq *time;

	if ((u32)ctx[0] != NET_RX)
		return 0;
	time = bpf_map_lookup_elem(&softirq, &zero);
	if (time && time->since) {
		time->total += bpf_ktime_get_ns() - time->since;
		time->since = 0;
	}
	return 0;
}

INLINE struct reader *reader_of(u32 task)
{
	u32 zero = 0;
	struct reader_bits *bits = bpf_map_lookup_elem(&reader_bits, &zero);

	if (!bits || likely(!(bits->bits[task >> 6 & 255] >> (task & 63) & 1)))
		return NULL;
	return bpf_map_lookup_elem(&readers, &task);
}

SEC("tp_btf/sched_wakeup")
int reader_wakes(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct reader *reader = reader_of(task->pid);

	if (reader && !reader->ready_since)
		reader->ready_since = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sched_switch")
int tasks_switch(u64 *ctx)
{
	struct task_struct *before = (void *)ctx[1];
	struct task_struct *next = (void *)ctx[2];
	struct reader *reader = reader_of(before->pid);

	if (unlikely(reader)) {
		u32 state = has_state ? (u32)ctx[3] : before->__state;

		/* It was preempted, or gave way: it still wants to run. */
		reader->ready_since = ctx[0] & 1 || !state ? bpf_ktime_get_ns() : 0;
	}
	reader = reader_of(next->pid);
	if (unlikely(reader) && reader->ready_since) {
		u64 now = bpf_ktime_get_ns();
		u64 waited = now > reader->ready_since ? now - reader->ready_since : 0;

		reader->ready_since = 0;
		reader->waited += waited;
		if (waited > reader->longest) {
			reader->longest = waited;
			bpf_probe_read_kernel_str(reader->behind, sizeof(reader->behind), before->comm);
		}
	}
	return 0;
}
