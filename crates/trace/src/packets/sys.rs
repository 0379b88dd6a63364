//! What the programs of `bpf/agent.bpf.c` and we share: its layouts, which this file must repeat to the byte.
#![allow(unsafe_code)]

use aya::Pod;

/// `struct sampled_interface`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SampledInterface {
    pub(super) chance: u64,
    pub(super) kept: u64,
    pub(super) slot: u32,
    pub(super) unused: u32,
}

/// `struct sampled`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SampledValue {
    pub(super) pool: u64,
    pub(super) chosen: u64,
    pub(super) shed: u64,
    pub(super) lost: u64,
}

/// `struct discarded`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DiscardedValue {
    pub(super) packets: u64,
    pub(super) told: u64,
}

/// `struct unplaced`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UnplacedValue {
    pub(super) missed: u64,
    pub(super) list: u64,
}

const _: () = assert!(size_of::<SampledInterface>() == 24 && size_of::<SampledValue>() == 32);
const _: () = assert!(size_of::<DiscardedValue>() == 16 && size_of::<UnplacedValue>() == 16);

// SAFETY: made of integers without padding, as the assertions show: any bytes are a valid value, and no byte of a value
// is uninitialised.
unsafe impl Pod for SampledInterface {}
// SAFETY: as above.
unsafe impl Pod for SampledValue {}
// SAFETY: as above.
unsafe impl Pod for DiscardedValue {}
// SAFETY: as above.
unsafe impl Pod for UnplacedValue {}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use object::{Object, ObjectSection};

    use super::*;
    use crate::btf::Btf;
    use crate::packets::event;

    #[test]
    fn layouts_are_those_of_the_object() {
        let object = object::File::parse(crate::packets::programs::OBJECT).unwrap();
        let btf = Btf::parse(object.section_by_name(".BTF").unwrap().data().unwrap().to_vec()).unwrap();
        let own = [
            ("sampled_interface", size_of::<SampledInterface>(), "kept", offset_of!(SampledInterface, kept)),
            ("sampled_interface", size_of::<SampledInterface>(), "slot", offset_of!(SampledInterface, slot)),
            ("sampled", size_of::<SampledValue>(), "chosen", offset_of!(SampledValue, chosen)),
            ("sampled", size_of::<SampledValue>(), "shed", offset_of!(SampledValue, shed)),
            ("sampled", size_of::<SampledValue>(), "lost", offset_of!(SampledValue, lost)),
            ("discarded", size_of::<DiscardedValue>(), "told", offset_of!(DiscardedValue, told)),
            ("unplaced", size_of::<UnplacedValue>(), "list", offset_of!(UnplacedValue, list)),
        ];
        let events = event::LAYOUT.map(|(member, at)| ("packet_event", event::SIZE, member, at));
        for (of, size, member, at) in own.into_iter().chain(events) {
            let (compiled, members) = btf.layout(of).unwrap_or_else(|| panic!("the object has no {of}"));
            let found = members.iter().find(|(name, ..)| name == member);
            assert_eq!((compiled, found.map(|(_, at, _)| *at)), (size, Some(at)), "{of}.{member}");
        }
    }
}
