//! The way from a captured frame to the IP packet in it.

/// With which header captured packets begin: LINKTYPE of libpcap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkType(pub u16);

/// Why there is no IP packet in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NotIp {
    /// A link type that is not known.
    #[error("link type {0} is not read (Ethernet, raw IP, Linux cooked and BSD loopback are)")]
    Link(u16),
    /// Another protocol is in it, or the frame ends before that can be told.
    #[error("no IP packet")]
    Other,
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// 802.1Q, 802.1ad, and the older number of the latter.
const VLANS: [u16; 3] = [0x8100, 0x88a8, 0x9100];

impl LinkType {
    /// Ethernet.
    pub const ETHERNET: Self = Self(1);

    /// The IP packet in a frame, with the padding behind it, through tags of VLANs.
    ///
    /// # Errors
    /// Another protocol, or a link type that is not known.
    pub fn ip(self, frame: &[u8]) -> Result<&[u8], NotIp> {
        match self.0 {
            // LINKTYPE_NULL: the address family, in the order of who captured; LINKTYPE_LOOP likewise.
            0 | 108 => version(frame.get(4..)),
            1 => typed(frame.get(12..)),
            // LINKTYPE_RAW and what systems wrote before it had a number; IPv4 and IPv6 alone.
            12 | 14 | 101 | 228 | 229 => version(Some(frame)),
            // LINKTYPE_LINUX_SLL: the protocol is the last field of the header.
            113 => typed(frame.get(14..)),
            // LINKTYPE_LINUX_SLL2: the protocol is its first field.
            276 => {
                let &[a, b, ..] = frame.first_chunk::<20>().ok_or(NotIp::Other)?;
                behind(u16::from_be_bytes([a, b]), &frame[20..])
            }
            other => Err(NotIp::Link(other)),
        }
    }
}

/// A packet whose version its first bits tell.
fn version(packet: Option<&[u8]>) -> Result<&[u8], NotIp> {
    packet.filter(|packet| packet.first().is_some_and(|first| matches!(first >> 4, 4 | 6))).ok_or(NotIp::Other)
}

/// A packet behind an EtherType.
fn typed(rest: Option<&[u8]>) -> Result<&[u8], NotIp> {
    let (&[a, b], rest) = rest.and_then(|rest| rest.split_first_chunk()).ok_or(NotIp::Other)?;
    behind(u16::from_be_bytes([a, b]), rest)
}

fn behind(ethertype: u16, rest: &[u8]) -> Result<&[u8], NotIp> {
    let (mut ethertype, mut rest) = (ethertype, rest);
    while VLANS.contains(&ethertype) {
        let (&[_, _, a, b], behind) = rest.split_first_chunk().ok_or(NotIp::Other)?;
        (ethertype, rest) = (u16::from_be_bytes([a, b]), behind);
    }
    if matches!(ethertype, IPV4 | IPV6) { version(Some(rest)) } else { Err(NotIp::Other) }
}
