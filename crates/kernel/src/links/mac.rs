//! Ethernet addresses.

use std::fmt;
use std::net::Ipv6Addr;

/// A 48-bit Ethernet address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// The `number`th address of our own: 02:00 (locally administered, unicast) and 32 bits.
    pub fn local(number: u32) -> MacAddress {
        let [a, b, c, d] = number.to_be_bytes();
        MacAddress([0x02, 0x00, a, b, c, d])
    }

    /// The IPv6 link-local address made from it: `fe80::/64` and the modified EUI-64 (RFC 4291, appendix A).
    pub fn link_local(self) -> Ipv6Addr {
        let [a, b, c, d, e, f] = self.0;
        Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 0x02, b, c, 0xff, 0xfe, d, e, f])
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(out, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_local_as_in_rfc_4291() {
        let mac = MacAddress([0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde]);
        assert_eq!(mac.link_local().to_string(), "fe80::3656:78ff:fe9a:bcde");
        assert_eq!(mac.to_string(), "34:56:78:9a:bc:de");
        assert_eq!(MacAddress::local(258).to_string(), "02:00:00:00:01:02");
    }
}
