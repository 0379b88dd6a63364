//! An ICMP echo: request and reply (RFC 792, RFC 4443 section 4).
//!
//! A ping socket (SOCK_DGRAM) needs no privilege, only a group within `net.ipv4.ping_group_range`; for IPv6 too. The
//! kernel sets its identifier and sees that only its own replies arrive (kernel: net/ipv4/ping.c).

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;

use super::Target;

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

impl Ping {
    /// Opens a socket for echoes with the target's host.
    pub(super) fn open(target: &Target) -> io::Result<Self> {
        let ip = target.address.ip().to_canonical();
        let (version, domain, protocol) = match ip {
            IpAddr::V4(_) => (Version::V4, Domain::IPV4, Protocol::ICMPV4),
            IpAddr::V6(_) => (Version::V6, Domain::IPV6, Protocol::ICMPV6),
        };
        let socket = Socket::new(domain, Type::DGRAM.nonblocking().cloexec(), Some(protocol))?;
        let token = RandomState::new().hash_one(target.address);
        Ok(Self { socket, waiting: None, target: target.clone(), bound: false, version, token, sequence: 0 })
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
            if answers(&received[..len], self.version, self.token, self.sequence) {
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

/// An echo request. The kernel fills in the identifier and the checksum.
fn request(version: Version, token: u64, sequence: u16) -> [u8; ECHO_LEN] {
    let mut message = [0; ECHO_LEN];
    message[0] = match version {
        Version::V4 => V4_REQUEST,
        Version::V6 => V6_REQUEST,
    };
    message[6..8].copy_from_slice(&sequence.to_be_bytes());
    message[8..].copy_from_slice(&token.to_be_bytes());
    message
}

/// Whether a received message is the reply to a request.
pub(crate) fn answers(received: &[u8], version: Version, token: u64, sequence: u16) -> bool {
    let reply = match version {
        Version::V4 => V4_REPLY,
        Version::V6 => V6_REPLY,
    };
    match received {
        [kind, 0, _, _, _, _, high, low, data @ ..] => {
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
    fn only_the_reply_to_the_last_request_answers() {
        let mut reply = request(Version::V4, 0x0102_0304_0506_0708, 0x1112);
        assert_eq!(reply, [8, 0, 0, 0, 0, 0, 0x11, 0x12, 1, 2, 3, 4, 5, 6, 7, 8], "as RFC 792 says");
        let (token, sequence) = (0x0102_0304_0506_0708, 0x1112);
        assert!(!answers(&reply, Version::V4, token, sequence), "a request");
        reply[0] = V4_REPLY;
        assert!(answers(&reply, Version::V4, token, sequence));
        assert!(!answers(&reply, Version::V4, token, sequence + 1), "late");
        assert!(!answers(&reply, Version::V4, token + 1, sequence), "somebody else's");
        assert!(!answers(&reply, Version::V6, token, sequence));
    }

    proptest! {
        #[test]
        fn any_bytes_can_come(bytes in vec(any::<u8>(), 0..80), sequence: u16) {
            prop_assert!(!answers(&bytes, Version::V6, 0x9e37_79b9_7f4a_7c15, sequence));
        }
    }
}
