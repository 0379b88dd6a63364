//! What the eBPF programs and we share: the layouts of `bpf/loss.bpf.c`, which this file must repeat to the byte.
#![allow(unsafe_code)]

use aya::Pod;

macro_rules! shared {
    ($($(#[$about:meta])* $name:ident: $bytes:literal { $($field:ident: $kind:ty,)* })*) => {$(
        $(#[$about])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(super) struct $name { $(pub(super) $field: $kind,)* }

        const _: () = assert!(size_of::<$name>() == $bytes && 0 $(+ size_of::<$kind>())* == $bytes);

        // SAFETY: made of integers and arrays of them, without padding, as the assertion above shows: any bytes are a
        // valid value, and no byte of a value is uninitialised.
        unsafe impl Pod for $name {}
    )*};
}

/// A key with a processor's own counts.
pub(super) trait Key: Pod + Eq + std::hash::Hash {
    /// As the program has it.
    type Slot: Pod;

    fn take(slot: &Self::Slot) -> (Self, Counts);
}

macro_rules! slots {
    ($($name:ident of $key:ident: $bytes:literal)*) => {
        shared! {$($name: $bytes { counts: Counts, key: $key, })*}
        $(impl Key for $key {
            type Slot = $name;

            fn take(slot: &$name) -> (Self, Counts) {
                (slot.key, slot.counts)
            }
        })*
    };
}

slots! {
    DropSlot of DropKey: 56
    PassageSlot of PassageKey: 40
    SendSlot of SendKey: 40
}

shared! {
    /// What is followed.
    FilterValue: 8208 {
        ports: [u64; 1024],
        all_ports: u32,
        all_namespaces: u32,
        namespace: u32,
        more_namespaces: u32,
    }
    DropKey: 40 {
        location: u64,
        cookie: u64,
        namespace: u32,
        interface: u32,
        reason: u32,
        port: u16,
        from_port: u16,
        outgoing: u32,
        unused: u32,
    }
    /// Datagrams and buffers, datagrams and bytes, or calls and datagrams. All zero: an unused slot.
    Counts: 16 {
        first: u64,
        second: u64,
    }
    PassageKey: 24 {
        cookie: u64,
        namespace: u32,
        interface: u32,
        port: u32,
        unused: u32,
    }
    SendKey: 24 {
        cookie: u64,
        namespace: u32,
        errno: i32,
        from_port: u16,
        port: u16,
        unused: u32,
    }
    SocketValue: 192 {
        cookie: u64,
        claimed: u64,
        enqueued: u64,
        waiting_since: u64,
        band: u64,
        band_ns: [u64; 5],
        level: u32,
        level_max: u32,
        receive_buffer: u32,
        truesize: u32,
        segment: u32,
        joined: u8,
        mixed: u8,
        port: u16,
        unused: [u64; 3],
        reads: u64,
        bytes: u64,
        datagrams: u64,
        longest_stall: u64,
        stalled: u64,
        reader: u32,
        namespace: u32,
        unused_too: [u64; 2],
    }
    ReaderValue: 40 {
        ready_since: u64,
        waited: u64,
        longest: u64,
        behind: [u8; 16],
    }
    FragmentKey: 40 {
        from: [u32; 4],
        to: [u32; 4],
        id: u32,
        namespace: u32,
    }
    Fragmented: 32 {
        lost: u64,
        point: u64,
        port: u16,
        from_port: u16,
        seen: u8,
        first_lost: u8,
        unused: u16,
        namespace: u32,
        unused_too: u32,
    }
    Waiting: 24 {
        since: u64,
        bytes: u32,
        total: u32,
        port: u16,
        multicast: u8,
        unused: [u8; 5],
    }
}
