//! From header to header: what each says comes next.

use super::{Frame, Protocol, Start};
use crate::ip::{self, Headers};

/// What is expected where the walk stands.
#[derive(Clone, Copy)]
enum Next {
    Ethernet,
    /// What a type of Ethernet says.
    EtherType(u16),
    /// An entry of a label stack.
    Label,
    /// Behind a label stack, which does not say what it carries.
    Unlabelled,
    /// IP of the version that its first bits say.
    Ip,
    /// What a protocol number of IP says.
    Transport(u8),
    /// By a well-known port of UDP.
    Vxlan,
    /// As above.
    Geneve,
}

pub(super) fn walk(frame: &mut Frame<'_>, start: Start) {
    let mut next = Some((
        match start {
            Start::Ethernet => Next::Ethernet,
            Start::Ipv4 | Start::Ipv6 => Next::Ip,
            Start::Mpls => Next::Label,
        },
        0,
    ));
    let mut end = frame.bytes.len();
    while let Some((expected, at)) = next {
        next = step(frame, expected, at, &mut end);
    }
}

/// Reads one header at `at`, nothing from `end` on; what comes behind it, and where.
fn step(frame: &mut Frame<'_>, expected: Next, at: usize, end: &mut usize) -> Option<(Next, usize)> {
    let bytes = frame.bytes.get(at..*end)?;
    match expected {
        Next::Ethernet => {
            let header: &[u8; 14] = bytes.first_chunk()?;
            let next = Next::EtherType(u16::from_be_bytes([header[12], header[13]]));
            frame.push(Protocol::Ethernet, at).then_some((next, at + 14))
        }
        Next::EtherType(length @ ..=MAX_LENGTH) => {
            // Behind the length there may be padding. A frame that says 0 was not finished by who sent it.
            if length != 0 {
                *end = (*end).min(at + usize::from(length));
            }
            llc(frame, frame.bytes.get(at..*end)?, at)
        }
        Next::EtherType(ethertype) => by_ethertype(frame, ethertype, bytes, at),
        Next::Label => {
            let &[.., low, _] = bytes.first_chunk::<4>()?;
            let next = if low & 1 == 0 { Next::Label } else { Next::Unlabelled };
            frame.push(Protocol::Mpls, at).then_some((next, at + 4))
        }
        Next::Unlabelled => match bytes.first()? >> 4 {
            4 | 6 => Some((Next::Ip, at)),
            // The control word of a pseudowire (RFC 4385 section 3).
            0 => Some((Next::Ethernet, at + 4)),
            _ => None,
        },
        Next::Ip => by_ip(frame, at, end),
        Next::Transport(protocol) => transport(frame, protocol, bytes, at),
        Next::Vxlan => {
            // The network identifier is valid (RFC 7348 section 5).
            let valid = bytes.first_chunk::<8>()?[0] & 8 != 0;
            (valid && frame.push(Protocol::Vxlan, at)).then_some((Next::Ethernet, at + 8))
        }
        Next::Geneve => {
            let header: &[u8; 8] = bytes.first_chunk()?;
            let options = usize::from(header[0] & 0x3f) * 4;
            let next = by_gre_type(u16::from_be_bytes([header[2], header[3]]));
            // Version 0 (RFC 8926 section 3.4).
            (header[0] >> 6 == 0 && frame.push(Protocol::Geneve, at)).then_some((next, at + 8 + options))
        }
    }
}

fn llc(frame: &mut Frame<'_>, bytes: &[u8], at: usize) -> Option<(Next, usize)> {
    let header: &[u8; 3] = bytes.first_chunk()?;
    if !frame.push(Protocol::Llc, at) || *header != [0xaa, 0xaa, 3] {
        return None;
    }
    // SNAP of an Ethernet type (RFC 1042); other organisations number as they like.
    match *bytes.first_chunk::<8>()? {
        [.., 0, 0, 0, high, low] => {
            let ethertype = u16::from_be_bytes([high, low]);
            (ethertype > MAX_LENGTH).then_some((Next::EtherType(ethertype), at + 8))
        }
        _ => None,
    }
}

fn by_ethertype(frame: &mut Frame<'_>, ethertype: u16, bytes: &[u8], at: usize) -> Option<(Next, usize)> {
    match ethertype {
        0x0800 | 0x86dd => Some((Next::Ip, at)),
        // 802.1Q, 802.1ad, and what switches used before that.
        0x8100 | 0x88a8 | 0x9100 | 0x9200 => {
            let &[_, _, high, low] = bytes.first_chunk::<4>()?;
            let next = Next::EtherType(u16::from_be_bytes([high, low]));
            frame.push(Protocol::Vlan, at).then_some((next, at + 4))
        }
        0x8847 | 0x8848 => Some((Next::Label, at)),
        0x0806 => {
            // Ethernet and IPv4 (RFC 826).
            let header: &[u8; 28] = bytes.first_chunk()?;
            if header[..6] == [0, 1, 8, 0, 6, 4] {
                frame.push(Protocol::Arp, at);
            }
            None
        }
        0x8864 => {
            // RFC 2516; then the protocol of PPP.
            let header: &[u8; 8] = bytes.first_chunk()?;
            let next = match u16::from_be_bytes([header[6], header[7]]) {
                0x0021 | 0x0057 => Some((Next::Ip, at + 8)),
                0x0281 | 0x0283 => Some((Next::Label, at + 8)),
                _ => None,
            };
            if frame.push(Protocol::Pppoe, at) { next } else { None }
        }
        0x88cc => {
            frame.push(Protocol::Lldp, at);
            None
        }
        _ => None,
    }
}

fn by_ip(frame: &mut Frame<'_>, at: usize, end: &mut usize) -> Option<(Next, usize)> {
    let ip = &frame.bytes[at..*end];
    let headers = Headers::parse_snapshot(ip).ok()?;
    let protocol = if headers.source.is_ipv4() { Protocol::Ipv4 } else { Protocol::Ipv6 };
    if !frame.push(protocol, at) {
        return None;
    }
    *end = (*end).min(at + headers.length);
    let behind = (headers.protocol, headers.transport);
    let (number, transport) = match protocol {
        Protocol::Ipv6 if headers.fragment => {
            if !frame.push(Protocol::Fragment, at + headers.transport - 8) || headers.offset != 0 {
                return None;
            }
            // The first fragment has all headers, perhaps further extensions among them.
            let (number, transport, _) = ip::skip_extensions(behind.0, &frame.bytes[at..*end], behind.1);
            (number, transport)
        }
        _ if headers.offset != 0 => return None,
        _ => behind,
    };
    if protocol == Protocol::Ipv6 && number == AUTHENTICATION {
        // It is an extension header: where it was not skipped, it was cut.
        return None;
    }
    Some((Next::Transport(number), at + transport))
}

fn transport(frame: &mut Frame<'_>, number: u8, bytes: &[u8], at: usize) -> Option<(Next, usize)> {
    // Ports, or type and code, are all that a header must have to be known.
    let (protocol, least) = match number {
        ip::TCP => (Protocol::Tcp, 4),
        ip::UDP => (Protocol::Udp, 4),
        132 => (Protocol::Sctp, 4),
        ip::ICMP => (Protocol::Icmp, 2),
        ip::ICMPV6 => (Protocol::Icmpv6, 2),
        ip::IGMP => (Protocol::Igmp, 1),
        47 => return gre(frame, bytes, at),
        50 => (Protocol::Esp, 4),
        AUTHENTICATION => {
            // RFC 4302 section 2.
            let &[next, length] = bytes.first_chunk()?;
            let pushed = frame.push(Protocol::Authentication, at);
            return pushed.then_some((Next::Transport(next), at + (usize::from(length) + 2) * 4));
        }
        4 | 41 => return Some((Next::Ip, at)),
        137 => return Some((Next::Label, at)),
        _ => return None,
    };
    if bytes.len() < least || !frame.push(protocol, at) || protocol != Protocol::Udp {
        return None;
    }
    match u16::from_be_bytes([bytes[2], bytes[3]]) {
        // 8472 is what Linux used before the number was assigned.
        4789 | 8472 => Some((Next::Vxlan, at + 8)),
        6081 => Some((Next::Geneve, at + 8)),
        _ => None,
    }
}

/// GRE (RFC 2784, RFC 2890); of version 1 (RFC 2637) what is behind the header is PPP, which is not read.
fn gre(frame: &mut Frame<'_>, bytes: &[u8], at: usize) -> Option<(Next, usize)> {
    let &[flags, version, high, low] = bytes.first_chunk()?;
    if !frame.push(Protocol::Gre, at) || version & 7 != 0 {
        return None;
    }
    let checksum = if flags & 0xc0 != 0 { 4 } else { 0 };
    let rest = usize::from(flags >> 5 & 1) * 4 + usize::from(flags >> 4 & 1) * 4;
    Some((by_gre_type(u16::from_be_bytes([high, low])), at + 4 + checksum + rest))
}

/// What a tunnel carries: a type of Ethernet, and a number for Ethernet itself.
fn by_gre_type(ethertype: u16) -> Next {
    const BRIDGED: u16 = 0x6558;
    if ethertype == BRIDGED { Next::Ethernet } else { Next::EtherType(ethertype) }
}

const AUTHENTICATION: u8 = 51;

/// Up to here the type of a frame is its length (IEEE 802.3, 3.2.6).
const MAX_LENGTH: u16 = 1500;
