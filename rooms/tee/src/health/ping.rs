//! An ICMP echo: request and reply (RFC 792, RFC 4443 section 4).
//!
//! A ping socket (SOCK_DGRAM) needs no privilege, only a group within `net.ipv4.ping_group_range`; for IPv6 too. The
//! kernel sets its identifier and sees that only its own replies arrive (kernel: net/ipv4/ping.c). Where it is
//! forbidden, a raw socket does, with the right to it: there everything of ICMP arrives that comes from that host, or in its
//! name. A filter in the kernel lets through what carries our token, so that nobody who does not see our requests can fill
//! the socket's buffer in the meantime.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};

use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use tokio::net::UdpSocket;
use weir_wire::ip::Checksum;

use super::probe::Target;

/// A socket for echoes with one host.
pub(super) struct Ping {
    /// Not of UDP, but all that is asked of it is to send, to receive and to be waited for.
    socket: Socket,
    /// The same, connected, as tokio knows it.
    waiting: Option<UdpSocket>,
    target: Target,
    /// A second time it cannot be (EINVAL).
    bound: bool,
    version: Version,
    /// The kernel puts the IP header in front of what is received.
    headed: bool,
    /// Tells its echoes from everybody else's.
    token: u64,
    /// Of the last request.
    sequence: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V4,
    V6,
}

impl Version {
    fn reply(self) -> u8 {
        match self {
            Self::V4 => V4_REPLY,
            Self::V6 => V6_REPLY,
        }
    }
}

impl Ping {
    /// Opens a socket for echoes with the target's host.
    pub(super) fn open(target: &Target) -> io::Result<Self> {
        let ip = target.address.ip().to_canonical();
        let (version, domain, protocol) = match ip {
            IpAddr::V4(_) => (Version::V4, Domain::IPV4, Protocol::ICMPV4),
            IpAddr::V6(_) => (Version::V6, Domain::IPV6, Protocol::ICMPV6),
        };
        let open = |kind: Type| Socket::new(domain, kind.nonblocking().cloexec(), Some(protocol));
        let (socket, raw) = match open(Type::DGRAM) {
            Ok(socket) => (socket, false),
            // The first error is the one to tell: it names the way that needs least.
            Err(error) => (open(Type::RAW).map_err(|_| error)?, true),
        };
        let (headed, token) = (raw && version == Version::V4, RandomState::new().hash_one(target.address));
        // Where it is refused, whatever arrives is looked at here all the same.
        let _ = socket.attach_filter(&filter(version, headed, token));
        Ok(Self { socket, waiting: None, target: target.clone(), bound: false, version, headed, token, sequence: 0 })
    }

    /// Sends a request and waits for its reply, for ever.
    pub(super) async fn echo(&mut self) -> io::Result<()> {
        if self.waiting.is_none() {
            self.waiting = Some(self.connect()?);
        }
        let Some(socket) = &self.waiting else { return Ok(()) };
        self.sequence = self.sequence.wrapping_add(1);
        let request = request(self.version, self.token, self.sequence);
        // What was reported of earlier requests fails the calls that follow; anybody may have sent it, and only an answer counts.
        let mut reports = 0;
        while let Err(error) = socket.send(&request).await {
            reports += 1;
            if reports > REPORTS {
                return Err(error);
            }
        }
        let (mut received, mut reports) = ([0; 256], 0);
        loop {
            let len = match socket.recv(&mut received).await {
                Ok(len) => len,
                Err(error) if reports >= MOST_REPORTS => return Err(error),
                Err(_) => {
                    reports += 1;
                    continue;
                }
            };
            if answers(&received[..len], self.version, self.headed, self.token, self.sequence) {
                return Ok(());
            }
        }
    }

    /// Connects, so that only this host's messages arrive. Not before the first echo, and then as long as it fails: the
    /// interface, the address or the route may come later than we do.
    fn connect(&mut self) -> io::Result<UdpSocket> {
        let Target { address, from, interface, .. } = &self.target;
        if let Some(interface) = interface {
            self.socket.bind_device(Some(interface.as_bytes()))?;
        }
        if let Some(from) = from.filter(|_| !self.bound) {
            self.socket.bind(&SocketAddr::new(from.ip().to_canonical(), 0).into())?;
            self.bound = true;
        }
        // Only an address as it came has the scope of a link-local one.
        let mut to =
            if self.version == Version::V4 { SocketAddr::new(address.ip().to_canonical(), 0) } else { *address };
        to.set_port(0);
        self.socket.connect(&to.into())?;
        UdpSocket::from_std(std::net::UdpSocket::from(self.socket.try_clone()?))
    }
}

/// An echo request. The kernel replaces the identifier on a ping socket, and the checksum everywhere but on a raw socket
/// of IPv4.
fn request(version: Version, token: u64, sequence: u16) -> [u8; ECHO_LEN] {
    let mut message = [0; ECHO_LEN];
    message[0] = match version {
        Version::V4 => V4_REQUEST,
        Version::V6 => V6_REQUEST,
    };
    message[4..6].copy_from_slice(&(token as u16).to_be_bytes());
    message[6..8].copy_from_slice(&sequence.to_be_bytes());
    message[8..].copy_from_slice(&token.to_be_bytes());
    if version == Version::V4 {
        let mut sum = Checksum::new();
        sum.add(&message);
        message[2..4].copy_from_slice(&sum.finish().to_be_bytes());
    }
    message
}

/// A filter that lets a reply through that carries our token (linux/filter.h).
fn filter(version: Version, headed: bool, token: u64) -> [SockFilter; 9] {
    let reply = u32::from(version.reply()) << 8;
    let [high, low] = [(token >> 32) as u32, token as u32];
    let program = [
        // X: where ICMP begins, behind the IP header (ldxb 4*([0]&0xf)), or here (ldx #0).
        if headed { (0xb1, 0, 0, 0) } else { (0x01, 0, 0, 0) },
        // Type and code (ldh [x+0], jeq).
        (0x48, 0, 0, 0),
        (0x15, 0, 5, reply),
        // The token (ld [x+8], jeq, ld [x+12], jeq).
        (0x40, 0, 0, 8),
        (0x15, 0, 3, high),
        (0x40, 0, 0, 12),
        (0x15, 0, 1, low),
        // All of it, or nothing.
        (0x06, 0, 0, u32::MAX),
        (0x06, 0, 0, 0),
    ];
    program.map(|(code, yes, no, value)| SockFilter::new(code, yes, no, value))
}

/// Whether a received message is the reply to a request. It is behind an IP header if `headed`.
pub(crate) fn answers(received: &[u8], version: Version, headed: bool, token: u64, sequence: u16) -> bool {
    let skipped = match received.first() {
        Some(first) if headed => usize::from(first & 0xf) * 4,
        _ => 0,
    };
    let reply = version.reply();
    match received.get(skipped..) {
        Some([kind, 0, _, _, _, _, high, low, data @ ..]) => {
            *kind == reply && [*high, *low] == sequence.to_be_bytes() && *data == token.to_be_bytes()
        }
        _ => false,
    }
}

/// Reports of earlier requests that may be in the way of a request; a route that is not there fails every time.
const REPORTS: u32 = 8;

/// Reports that may come while a reply is waited for; beyond that something else is wrong.
const MOST_REPORTS: u32 = 1_000_000;

/// Header and the token.
const ECHO_LEN: usize = 16;

const V4_REQUEST: u8 = 8;
const V4_REPLY: u8 = 0;
const V6_REQUEST: u8 = 128;
const V6_REPLY: u8 = 129;

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_request_is_laid_out_as_rfc_792_says() {
        let message = request(Version::V4, 0x0102_0304_0506_0708, 0x1112);
        // 0800 + 0708 + 1112 + 0102 + 0304 + 0506 + 0708 = 302e
        assert_eq!(message, [8, 0, 0xcf, 0xd1, 7, 8, 0x11, 0x12, 1, 2, 3, 4, 5, 6, 7, 8]);
        let message = request(Version::V6, 1, 2);
        assert_eq!(message, [128, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn only_the_reply_to_the_last_request_answers() {
        let mut reply = request(Version::V4, 7, 9);
        assert!(!answers(&reply, Version::V4, false, 7, 9), "a request");
        reply[0] = V4_REPLY;
        assert!(answers(&reply, Version::V4, false, 7, 9));
        assert!(!answers(&reply, Version::V4, false, 7, 10), "late");
        assert!(!answers(&reply, Version::V4, false, 8, 9), "somebody else's");
        assert!(!answers(&reply, Version::V6, false, 7, 9));
        let headed = [&[0x46][..], &[0; 23], &reply].concat();
        assert!(answers(&headed, Version::V4, true, 7, 9), "behind a header of 6 words");
    }

    proptest! {
        #[test]
        fn any_bytes_can_come(bytes in vec(any::<u8>(), 0..80), headed: bool, sequence: u16) {
            prop_assert!(!answers(&bytes, Version::V6, headed, 0x9e37_79b9_7f4a_7c15, sequence));
        }
    }
}
