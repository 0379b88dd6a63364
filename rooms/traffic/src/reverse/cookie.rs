//! Cookies: what shows that somebody receives at the address that it claims, without anything being kept of it before.

use std::net::{IpAddr, SocketAddr};

use ring::hmac;
use ring::rand::SystemRandom;
use subtle::ConstantTimeEq;
use weir_program::clock::Nanos;
use weir_wire::control::{Control, Cookie};

/// What cookies are made with; of this process, never shown to anybody.
pub(super) struct Secret(hmac::Key);

impl Secret {
    /// A new one; `None`: the kernel has no random numbers.
    pub(super) fn new() -> Option<Self> {
        hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok().map(Self)
    }

    /// A cookie for whoever receives at the address `peer`, of the time `at`.
    pub(super) fn bake(&self, control: &Control, peer: SocketAddr, at: Nanos) -> Cookie {
        let issued = at.max(1);
        Cookie { issued, tag: self.tag(control, peer, issued) }
    }

    /// When the cookie that `control` shows was made for `peer`; `None`: it was not, or too long before the time `at`.
    pub(super) fn check(&self, control: &Control, peer: SocketAddr, at: Nanos) -> Option<Nanos> {
        let Cookie { issued, tag } = control.cookie?;
        let fresh = issued <= at && at - issued <= EXPIRY;
        let ours = self.tag(control, peer, issued).ct_eq(&tag);
        (fresh && bool::from(ours)).then_some(issued)
    }

    fn tag(&self, control: &Control, peer: SocketAddr, issued: Nanos) -> [u8; 16] {
        let mut code = hmac::Context::with_key(&self.0);
        match peer.ip() {
            IpAddr::V4(ip) => code.update(&ip.octets()),
            IpAddr::V6(ip) => code.update(&ip.octets()),
        }
        code.update(&peer.port().to_be_bytes());
        code.update(&control.session.to_be_bytes());
        code.update(&control.request.to_be_bytes());
        code.update(&issued.to_be_bytes());
        let mut tag = [0; 16];
        tag.copy_from_slice(&code.sign().as_ref()[..16]);
        tag
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// How old a cookie may be: the round trip of a bad path, many times over.
pub(super) const EXPIRY: Nanos = 10_000_000_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_wire::control::Says;

    use super::*;

    fn control(session: u16, request: u64, cookie: Option<Cookie>) -> Control {
        Control { session, request, cookie, says: Says::Alive }
    }

    proptest! {
        #[test]
        fn a_cookie_is_good_for_its_address_request_and_time_alone(
            address in any::<u32>(), port in any::<u16>(), request in any::<u64>(), at in 1u64..1 << 60, flip in 0usize..(24 * 8),
        ) {
            let secret = Secret::new().unwrap();
            let peer = SocketAddr::new(std::net::Ipv4Addr::from(address).into(), port);
            let cookie = secret.bake(&control(3, request, None), peer, at);
            let shown = control(3, request, Some(cookie));
            prop_assert_eq!(secret.check(&shown, peer, at), Some(at));
            prop_assert_eq!(secret.check(&shown, peer, at + EXPIRY), Some(at));
            prop_assert_eq!(secret.check(&shown, peer, at + EXPIRY + 1), None);
            prop_assert_eq!(secret.check(&shown, peer, at - 1), None);
            let other = SocketAddr::new(peer.ip(), port.wrapping_add(1));
            prop_assert_eq!(secret.check(&shown, other, at), None);
            let other = SocketAddr::new(std::net::Ipv4Addr::from(address ^ 1).into(), port);
            prop_assert_eq!(secret.check(&shown, other, at), None);
            prop_assert_eq!(secret.check(&control(4, request, Some(cookie)), peer, at), None);
            prop_assert_eq!(secret.check(&control(3, request ^ 1, Some(cookie)), peer, at), None);
            prop_assert_eq!(Secret::new().unwrap().check(&shown, peer, at), None, "another process");
            let mut forged = cookie;
            match flip / 8 {
                byte @ 0..16 => forged.tag[byte] ^= 1 << (flip % 8),
                byte => forged.issued ^= 1 << ((byte - 16) * 8 + flip % 8),
            }
            prop_assert_eq!(secret.check(&control(3, request, Some(forged)), peer, at), None);
        }
    }
}
