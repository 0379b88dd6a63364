//! What the eBPF programs and we share: the layouts of `bpf/loss.bpf.c`, which this file must repeat to the byte.
#![allow(unsafe_code)]

use aya::Pod;

macro_rules! shared {
    ($($(#[$about:meta])* $name:ident of $($of:literal)|+: $bytes:literal { $($field:ident: $kind:ty,)* })*) => {$(
        $(#[$about])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(super) struct $name { $(pub(super) $field: $kind,)* }

        const _: () = assert!(size_of::<$name>() == $bytes && 0 $(+ size_of::<$kind>())* == $bytes);

        // SAFETY: made of integers and arrays of them, without padding, as the assertion above shows: any bytes are a
        // valid value, and no byte of a value is uninitialised.
        unsafe impl Pod for $name {}
    )*
        #[cfg(test)]
        const LAYOUTS: &[Layout] = &[$((
            stringify!($name),
            &[$($of),+],
            $bytes,
            &[$((stringify!($field), std::mem::offset_of!($name, $field), size_of::<$kind>())),*],
        )),*];
    };
}

/// Of a struct here: its name, those in C, its size, and name, offset and size of each member.
#[cfg(test)]
type Layout = (&'static str, &'static [&'static str], usize, &'static [(&'static str, usize, usize)]);

/// A key with a processor's own counts.
pub(super) trait Key: Pod + Eq + std::hash::Hash {
    /// As the program has it.
    type Slot: Pod;

    fn take(slot: &Self::Slot) -> (Self, Counts);
}

macro_rules! slots {
    ($($name:ident of $key:ident)*) => {$(
        impl Key for $key {
            type Slot = $name;

            fn take(slot: &$name) -> (Self, Counts) {
                (slot.key, slot.counts)
            }
        }
    )*};
}

slots! {
    DropSlot of DropKey
    PlaceSlot of PlaceKey
    PassageSlot of InterfaceKey
    SendSlot of SendKey
}

shared! {
    /// What is followed.
    FilterValue of "filter": 8208 {
        ports: [u64; 1024],
        all_ports: u32,
        all_namespaces: u32,
        namespace: u32,
        more_namespaces: u32,
    }
    DropKey of "drop_key": 32 {
        location: u64,
        cookie: u64,
        namespace: u32,
        interface: u32,
        reason: u32,
        port: u16,
        outgoing: u8,
        unused: u8,
    }
    PlaceKey of "place_key": 24 {
        location: u64,
        namespace: u32,
        reason: u32,
        outgoing: u32,
        unused: u32,
    }
    /// Datagrams and buffers, datagrams and bytes, or calls and datagrams. All zero: an unused slot.
    Counts of "counts": 16 {
        first: u64,
        second: u64,
    }
    InterfaceKey of "passage_key": 24 {
        cookie: u64,
        namespace: u32,
        interface: u32,
        port: u32,
        cast: u32,
    }
    SendKey of "send_key": 24 {
        cookie: u64,
        namespace: u32,
        errno: i32,
        from_port: u16,
        port: u16,
        unused: u32,
    }
    SocketValue of "socket_state": 192 {
        cookie: u64,
        born: u64,
        enqueued: u64,
        waiting_since: u64,
        level: u32,
        level_max: u32,
        receive_buffer: u32,
        segment: u32,
        joined: u8,
        mixed: u8,
        port: u16,
        episodes: u32,
        episode: u64,
        dropped: u64,
        before: u32,
        unused: [u32; 13],
        reads: u64,
        bytes: u64,
        datagrams: u64,
        longest_stall: u64,
        stalled: u64,
        reader: u32,
        namespace: u32,
        waiting: u64,
        episode_max: u64,
    }
    FragmentKey of "fragment_key": 40 {
        from: [u32; 4],
        to: [u32; 4],
        id: u32,
        namespace: u32,
    }
    Waiting of "waiting": 24 {
        since: u64,
        bytes: u32,
        total: u32,
        port: u16,
        unused: [u16; 3],
    }
    /// Events that found a map full, and sockets that were given a state in the hash map.
    Tallies of "tallies": 48 {
        drops: u64,
        queues: u64,
        passages: u64,
        sends: u64,
        hashed: u64,
        sourced: u64,
    }
    SourceKey of "source_key": 48 {
        from: [u32; 4],
        cookie: u64,
        location: u64,
        namespace: u32,
        reason: u32,
        port: u16,
        version: u8,
        outgoing: u8,
        unused: u32,
    }
    SampledKey of "sampled_key": 16 {
        location: u64,
        reason: u32,
        outgoing: u32,
    }
    SampleValue of "sample": 376 {
        time: u64,
        location: u64,
        cookie: u64,
        stack: [u64; 24],
        namespace: u32,
        interface: u32,
        reason: u32,
        outgoing: u32,
        port: u16,
        from_port: u16,
        length: u32,
        captured: u32,
        ready: u32,
        bytes: [u8; 128],
    }
    DropSlot of "drops_slot": 48 {
        counts: Counts,
        key: DropKey,
    }
    PlaceSlot of "places_slot": 40 {
        counts: Counts,
        key: PlaceKey,
    }
    PassageSlot of "arrivals_slot" | "departures_slot": 40 {
        counts: Counts,
        key: InterfaceKey,
    }
    SendSlot of "sends_slot": 40 {
        counts: Counts,
        key: SendKey,
    }
}

impl SocketValue {
    /// An unused slot.
    // SAFETY: `Pod`: zeros are a valid value.
    pub(super) const NONE: SocketValue = unsafe { std::mem::zeroed() };
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use object::{Object, ObjectSection};

    use super::LAYOUTS;
    use crate::btf::Btf;
    use crate::programs::OBJECT;

    /// The types of the committed object.
    fn compiled() -> Btf {
        let object = object::File::parse(OBJECT).unwrap();
        Btf::parse(object.section_by_name(".BTF").unwrap().data().unwrap().to_vec()).unwrap()
    }

    #[test]
    fn layouts_are_those_of_the_object() {
        let btf = compiled();
        for (name, structs, size, members) in LAYOUTS {
            for of in *structs {
                let (compiled_size, compiled) = btf.layout(of).unwrap_or_else(|| panic!("the object has no {of}"));
                assert_eq!(*size, compiled_size, "bytes of {name}, of {of}");
                // What only we have lies where the compiler left a gap: neither size nor the next member tells.
                let ours = members.iter().filter(|(member, ..)| !member.starts_with("unused"));
                let theirs = compiled.iter().filter(|(member, ..)| !member.starts_with("unused"));
                let theirs: Vec<_> = theirs.map(|(member, at, size)| (member.as_str(), *at, *size)).collect();
                assert_eq!(ours.copied().collect::<Vec<_>>(), theirs, "members of {name}, of {of}");
            }
        }
    }

    #[test]
    fn what_maps_hold_has_a_layout_here() {
        let here: BTreeSet<&str> = LAYOUTS.iter().flat_map(|(_, structs, ..)| *structs).copied().collect();
        let held = compiled().held_by_maps();
        assert!(held.len() > 8, "{held:?}");
        let missing: Vec<_> = held.iter().filter(|of| !here.contains(of.as_str())).collect();
        assert_eq!(missing, [] as [&String; 0]);
    }
}
