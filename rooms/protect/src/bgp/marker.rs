//! By what own routes are known.

use crate::config::values::Community;

/// What is put on a route besides what it asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marker {
    /// For people and filters; nothing is known by it.
    pub(super) community: Option<Community>,
    /// Tells this Weir's routes from others': `speaker.id`.
    pub(super) id: u32,
}

impl Marker {
    /// The large community (RFC 8092) `4200006343:0:ID` by which a route is ours.
    pub(super) fn own(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&ADMINISTRATOR.to_be_bytes());
        bytes[8..].copy_from_slice(&self.id.to_be_bytes());
        bytes
    }
}

/// An AS for private use (RFC 6996), chosen by sFlow's port.
const ADMINISTRATOR: u32 = 4_200_006_343;
