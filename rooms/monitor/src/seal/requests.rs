//! Requests to a sender that seals: sealed by who asks, and each heard once.
//!
//! They have a key of their own (another info of HKDF), since their nonces are chance: what is sealed by the sender and by others shares
//! none. The sequence of a sealed request is the time at which it was sent, ns since 1970; it goes up, so that none is heard twice.

use ring::aead::{Aad, LessSafeKey, Tag};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, UnparsedPublicKey};
use weir_wire::signal::{Flags, HEADER_LEN, Header, Malformed};

use super::{ENCRYPTION_LEN, GroupKey, PublicKey, SIGNATURE_LEN, SigningKey, derived_key, nonce, split};

/// Seals what one receiver asks.
#[derive(Debug, Default)]
pub struct Asker {
    group: Option<GroupKey>,
    signing: Option<Ed25519KeyPair>,
    last: u64,
}

/// Hears what others ask.
#[derive(Debug, Default)]
pub struct Hearing {
    group: Option<GroupKey>,
    servers: Vec<PublicKey>,
    /// Sequence of the last request: of each of `servers`, or of all who have the group's key.
    last: Vec<u64>,
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

impl Hearing {
    /// With the group's key all have to be encrypted with it, with keys of `servers` signed by one of them.
    pub fn new(group: Option<GroupKey>, servers: Vec<PublicKey>) -> Self {
        let last = vec![0; servers.len().max(1)];
        Self { group, servers, last }
    }

    /// A request in plain text, of this session; `None`: it is not sealed as the keys demand, of another session, or was heard before.
    pub fn open<'a>(&mut self, bytes: &'a [u8], session: u64, scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        let demanded = Flags { signed: !self.servers.is_empty(), encrypted: self.group.is_some() };
        // What is no request at all its reader says.
        let Ok((header, _)) = Header::parse(bytes) else { return (demanded == Flags::default()).then_some(bytes) };
        if header.flags != demanded {
            return None;
        }
        if demanded == Flags::default() {
            return Some(bytes);
        }
        let (mut rest, mut server) = (bytes, 0);
        if demanded.signed {
            let (before, signature) = split(rest, SIGNATURE_LEN, "a signature").ok()?;
            let signs =
                |key: &PublicKey| UnparsedPublicKey::new(&ED25519, key.bytes()).verify(before, signature).is_ok();
            server = self.servers.iter().position(signs)?;
            rest = before;
        }
        scratch.clear();
        scratch.extend_from_slice(rest);
        if let Some(group) = &self.group {
            let (before, trailer) = split(rest, ENCRYPTION_LEN, "an encrypted body").ok()?;
            let (chance, tag) = trailer.split_at(8);
            let chance = u64::from_le_bytes(std::array::from_fn(|byte| chance[byte]));
            let tag = Tag::try_from(tag).ok()?;
            scratch.truncate(before.len());
            let (head, body) = scratch.split_at_mut(HEADER_LEN);
            let key = key(group, header.session);
            key.open_in_place_separate_tag(nonce(chance), Aad::from(head), tag, body, 0..).ok()?;
        }
        // Another session's may be heard again: it is another sender's.
        if header.session != session || header.sequence <= self.last[server] {
            return None;
        }
        self.last[server] = header.sequence;
        scratch[..HEADER_LEN].copy_from_slice(&Header { flags: Flags::default(), ..header }.to_bytes());
        Some(scratch)
    }
}

fn key(group: &GroupKey, session: u64) -> LessSafeKey {
    derived_key(group, session, INFO)
}

/// What the key is for (RFC 5869, info).
const INFO: &[u8] = b"weir signal 1 request";
