//! Requests to a sender that seals: sealed by who asks, and each heard once.
//!
//! They have a key of their own (another info of HKDF), since their nonces are chance: what is sealed by the sender and by others shares
//! none. The sequence of a sealed request is the time at which it was sent, ns since 1970; it goes up, so that none is heard twice.

use ring::aead::{Aad, LessSafeKey};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::Ed25519KeyPair;
use weir_wire::signal::{Flags, HEADER_LEN, Header, Malformed};

use super::{GroupKey, SigningKey, derived_key, nonce};

/// Seals what one receiver asks.
#[derive(Debug, Default)]
pub struct Asker {
    group: Option<GroupKey>,
    signing: Option<Ed25519KeyPair>,
    last: u64,
}

impl Asker {
    /// With the keys that there are; with none it leaves requests as they are.
    pub fn new(group: Option<GroupKey>, signing: Option<SigningKey>) -> Self {
        Self { group, signing: signing.map(SigningKey::into_pair), last: 0 }
    }

    /// Seals a request in plain text. `now`: time of day, ns since 1970.
    ///
    /// # Errors
    /// It is shorter than a header, or there are no random numbers.
    pub fn seal(&mut self, datagram: &mut Vec<u8>, now: u64) -> Result<(), Malformed> {
        let (header, _) = Header::parse(datagram)?;
        let flags = Flags { signed: self.signing.is_some(), encrypted: self.group.is_some() };
        if flags == Flags::default() {
            return Ok(());
        }
        // A clock that was set back counts on.
        self.last = now.max(self.last + 1);
        datagram[..HEADER_LEN].copy_from_slice(&Header { flags, sequence: self.last, ..header }.to_bytes());
        if let Some(group) = &self.group {
            let mut chance = [0; 8];
            SystemRandom::new().fill(&mut chance).map_err(|_| Malformed::Cut("a random number"))?;
            let (head, body) = datagram.split_at_mut(HEADER_LEN);
            let tag = key(group, header.session)
                .seal_in_place_separate_tag(nonce(u64::from_le_bytes(chance)), Aad::from(head), body)
                .map_err(|_| Malformed::Cut("the cipher"))?;
            datagram.extend(chance);
            datagram.extend(tag.as_ref());
        }
        if let Some(signing) = &self.signing {
            let signature = signing.sign(datagram);
            datagram.extend(signature.as_ref());
        }
        Ok(())
    }
}

fn key(group: &GroupKey, session: u64) -> LessSafeKey {
    derived_key(group, session, INFO)
}

/// What the key is for (RFC 5869, info).
const INFO: &[u8] = b"weir signal 1 request";
