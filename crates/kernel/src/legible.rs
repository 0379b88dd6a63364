//! What others have named: the kernel takes any bytes as the name of an interface, or as its alias.

use std::fmt::Write;

use netlink_packet_core::{NetlinkDeserializable, NetlinkHeader};
use netlink_packet_route::RouteNetlinkMessage;

use crate::netlink::{attribute, attributes};

/// Text of the kernel's; bytes that are no UTF-8 become `\xff`, so that different names stay different.
pub(crate) fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// The message about a link (RTM_NEWLINK, behind its netlink header) without the attributes that cannot be read, and with
/// a name that can be. `None`: it is too short to be one.
pub(crate) fn link(payload: &[u8]) -> Option<Vec<u8>> {
    let (about, rest) = payload.split_at_checked(LINK_HEADER)?;
    let mut header = NetlinkHeader::default();
    header.message_type = RTM_NEWLINK;
    let mut legible = about.to_vec();
    for (kind, value) in attributes(rest) {
        let written = match kind {
            IFLA_IFNAME => attribute(kind, text(value.strip_suffix(&[0]).unwrap_or(value)).as_bytes()),
            _ => attribute(kind, value),
        };
        if RouteNetlinkMessage::deserialize(&header, &[about, &written].concat()).is_ok() {
            legible.extend(written);
        }
    }
    Some(legible)
}

/// An interface, as it is or as it has become (include/uapi/linux/rtnetlink.h).
pub(crate) const RTM_NEWLINK: u16 = 16;

/// Length of `struct ifinfomsg`.
const LINK_HEADER: usize = 16;

/// include/uapi/linux/if_link.h.
const IFLA_IFNAME: u16 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_utf8_is_escaped() {
        assert_eq!(text(b"eth0"), "eth0");
        assert_eq!(text("ä\u{1F40E}".as_bytes()), "ä\u{1F40E}");
        assert_eq!(text(b"bad\xff"), "bad\\xff");
        assert_eq!(text(b"\xc3\xe2\x82x"), "\\xc3\\xe2\\x82x");
    }
}
