//! Address families (IANA; RFC 4760, RFC 8955).

use std::fmt;

/// One of the four that routes are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::bgp) struct Family {
    pub(in crate::bgp) is_v6: bool,
    pub(in crate::bgp) is_flow: bool,
}

impl Family {
    /// All of them.
    pub(in crate::bgp) const ALL: [Family; 4] = [
        Family { is_v6: false, is_flow: false },
        Family { is_v6: true, is_flow: false },
        Family { is_v6: false, is_flow: true },
        Family { is_v6: true, is_flow: true },
    ];

    /// AFI.
    pub(in crate::bgp) fn afi(self) -> u16 {
        if self.is_v6 { 2 } else { 1 }
    }

    /// SAFI.
    pub(in crate::bgp) fn safi(self) -> u8 {
        if self.is_flow { 133 } else { 1 }
    }
}

/// As gobgpd's file has it.
impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ipv{}-{}", if self.is_v6 { 6 } else { 4 }, if self.is_flow { "flowspec" } else { "unicast" })
    }
}
