/* What of the kernel's interface to eBPF programs loss.bpf.c uses: sections, maps, helpers (include/uapi/linux/bpf.h). */
#pragma once

#include "vmlinux.h"

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* A map's definition: aya and libbpf read it from the type's BTF. */
#define FIELD(name, value) int(*name)[value]
#define TYPE(name, type) typeof(type) *name

enum {
	HASH = 1,
	ARRAY = 2,
	PERCPU_HASH = 5,
	PERCPU_ARRAY = 6,
	LRU_HASH = 9,
	LRU_PERCPU_HASH = 10,
};

enum { ANY = 0, NOEXIST = 1 };

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static u64 (*bpf_get_socket_cookie)(void *socket) = (void *)46;
static long (*bpf_get_stack)(void *ctx, void *to, u32 bytes, u64 flags) = (void *)67;
static long (*bpf_probe_read_kernel)(void *to, u32 bytes, const void *from) = (void *)113;
static long (*bpf_get_ns_current_pid_tgid)(u64 dev, u64 ino, void *to, u32 bytes) = (void *)120;
static struct task_struct *(*bpf_get_current_task_btf)(void) = (void *)158;

/* Whether the running kernel's type has this member (BPF_FIELD_EXISTS). */
#define exists(member) __builtin_preserve_field_info(member, 2)

/* The value of a bit field of one byte, wherever the running kernel has it (BPF_CORE_READ_BITFIELD). */
#define BITS(object, member)                                                                           \
	((u64) * ((u8 *)(object) + __builtin_preserve_field_info((object)->member, 0))                 \
		 << __builtin_preserve_field_info((object)->member, 4) >>                              \
	 __builtin_preserve_field_info((object)->member, 5))

INLINE u16 ntohs(u16 value)
{
	return __builtin_bswap16(value);
}
