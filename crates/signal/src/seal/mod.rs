//! Signed and encrypted datagrams: who sent it, and nobody else reads it. docs/signal.md describes the trailers byte by byte.
//!
//! ```text
//! header, its flags set | body                                          both kinds of keys are optional
//! header                | ChaCha20-Poly1305(body) | counter 8 | tag 16      the header is associated data
//! header                | ...                                 | signature 64    Ed25519 over all before it
//! ```
//!
//! The key of a session is HKDF-SHA256 of the group's key, salted with the session, which is random at each start: counters begin at 0
//! again without a nonce being used twice.

mod keys;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::Path;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, Tag, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::signature::{ED25519, Ed25519KeyPair, UnparsedPublicKey};
use weir_wire::signal::{Flags, HEADER_LEN, Header, Malformed};

pub use keys::{GroupKey, KeyError, PublicKey, SigningKey};

/// Bytes that encryption adds.
pub const ENCRYPTION_LEN: usize = 8 + 16;

/// Bytes that a signature adds.
pub const SIGNATURE_LEN: usize = 64;

/// Seals what one sender sends, of one or several sessions.
#[derive(Debug, Default)]
pub struct Sealer {
    group: Option<GroupKey>,
    signing: Option<Ed25519KeyPair>,
    session: Option<(u64, LessSafeKey)>,
    counter: u64,
}

/// Opens what senders seal.
#[derive(Debug, Default)]
pub struct Opener {
    group: Option<GroupKey>,
    senders: Vec<PublicKey>,
    /// Sessions of which a datagram was opened: nobody without a key gets one in here.
    known: HashMap<u64, Known>,
    evicted: u64,
    opened: u64,
}

#[derive(Debug)]
struct Known {
    key: Option<LessSafeKey>,
    /// Who signs it, of `senders`.
    sender: usize,
    /// How many were opened when one of it was.
    used: u64,
    /// Behind the greatest counter of those that were encrypted.
    counted: u64,
}

/// A datagram that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened<'a> {
    /// In plain text.
    pub bytes: &'a [u8],
    /// Whether it can have been sent just now. `false`: it was encrypted, and a later one of its session has come: it is a copy, is late,
    /// or somebody replays it.
    pub is_fresh: bool,
}

/// Why a datagram is not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refused {
    /// It is no signal datagram, or shorter than its trailers.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// It is encrypted, and there is no key of the group.
    #[error("it is encrypted: give the key of the group")]
    NoKey,
    /// It is signed, and no sender's public key is known.
    #[error("it is signed: give the public key of the station")]
    NoSender,
    /// There is a key of the group, and it is in plain text.
    #[error("it is not encrypted, as all of this group are to be")]
    Plain,
    /// Public keys are known, and nobody signed it.
    #[error("it is not signed, as all of this group are to be")]
    Unsigned,
    /// It was changed on the way, or encrypted with another key.
    #[error("it was changed on the way, or encrypted with another key")]
    Changed,
    /// It was changed on the way, or signed by somebody else.
    #[error("it was changed on the way, or signed by somebody else")]
    Forged,
}

impl Refused {
    /// By which metrics call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::NoKey => "no_key",
            Self::NoSender => "no_sender",
            Self::Plain => "plain",
            Self::Unsigned => "unsigned",
            Self::Changed => "changed",
            Self::Forged => "forged",
        }
    }
}

impl Sealer {
    /// With the keys that there are; with none it leaves datagrams as they are.
    pub fn new(group: Option<GroupKey>, signing: Option<SigningKey>) -> Self {
        let signing = signing.map(SigningKey::into_pair);
        Self { group, signing, ..Self::default() }
    }

    /// With the keys in these files.
    ///
    /// # Errors
    /// A file cannot be read, holds no key, or is open to others.
    pub fn read(group: Option<&Path>, signing: Option<&Path>) -> Result<Self, KeyError> {
        Ok(Self::new(group.map(GroupKey::read).transpose()?, signing.map(SigningKey::read).transpose()?))
    }

    /// Bytes that it adds to each datagram.
    pub fn overhead(&self) -> usize {
        let encryption = if self.group.is_some() { ENCRYPTION_LEN } else { 0 };
        encryption + if self.signing.is_some() { SIGNATURE_LEN } else { 0 }
    }

    /// Seals a whole datagram in plain text.
    ///
    /// # Errors
    /// It is shorter than a header, or sealed already.
    pub fn seal(&mut self, datagram: &mut Vec<u8>) -> Result<(), Malformed> {
        if self.overhead() == 0 {
            return Ok(());
        }
        let (header, _) = Header::parse(datagram)?;
        if header.flags != Flags::default() {
            return Err(Malformed::Sealed);
        }
        let flags = Flags { signed: self.signing.is_some(), encrypted: self.group.is_some() };
        datagram[..HEADER_LEN].copy_from_slice(&Header { flags, ..header }.to_bytes());
        if let Some(group) = &self.group {
            if self.session.as_ref().is_none_or(|(session, _)| *session != header.session) {
                self.session = Some((header.session, session_key(group, header.session)));
                self.counter = 0;
            }
            if let Some((_, key)) = &self.session {
                let (head, body) = datagram.split_at_mut(HEADER_LEN);
                // No datagram is longer than the cipher takes.
                let tag = key
                    .seal_in_place_separate_tag(nonce(self.counter), Aad::from(head), body)
                    .map_err(|_| Malformed::Cut("the cipher"))?;
                datagram.extend(self.counter.to_le_bytes());
                datagram.extend(tag.as_ref());
                self.counter += 1;
            }
        }
        if let Some(signing) = &self.signing {
            let signature = signing.sign(datagram);
            datagram.extend(signature.as_ref());
        }
        Ok(())
    }
}

impl Opener {
    /// With the key of the group, and the public keys of those who may send; without any it lets pass what is not sealed, and nothing else.
    pub fn new(group: Option<GroupKey>, senders: Vec<PublicKey>) -> Self {
        Self { group, senders, ..Self::default() }
    }

    /// Opens a datagram: returns it as [`Datagram::parse`](weir_wire::signal::Datagram::parse) takes it. `scratch` is overwritten, unless
    /// it was not sealed. Known sessions are opened without an allocation.
    ///
    /// # Errors
    /// It is not what the keys demand, was changed, or comes from somebody else.
    pub fn open<'a>(&mut self, bytes: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<Opened<'a>, Refused> {
        let (header, _) = Header::parse(bytes)?;
        let Flags { signed, encrypted } = header.flags;
        match (signed, encrypted) {
            (true, _) if self.senders.is_empty() => return Err(Refused::NoSender),
            (_, true) if self.group.is_none() => return Err(Refused::NoKey),
            (false, _) if !self.senders.is_empty() => return Err(Refused::Unsigned),
            (_, false) if self.group.is_some() => return Err(Refused::Plain),
            (false, false) => return Ok(Opened { bytes, is_fresh: true }),
            _ => {}
        }
        let known = self.known.get(&header.session);
        let mut rest = bytes;
        let mut sender = 0;
        if signed {
            let (before, signature) = split(rest, SIGNATURE_LEN, "a signature")?;
            let signs = |at: &usize| {
                let key = self.senders.get(*at).map(PublicKey::bytes);
                key.is_some_and(|key| UnparsedPublicKey::new(&ED25519, key).verify(before, signature).is_ok())
            };
            // A session is one sender's; of a new one each may be it.
            sender = match known {
                Some(known) => Some(known.sender).filter(signs),
                None => (0..self.senders.len()).find(signs),
            }
            .ok_or(Refused::Forged)?;
            rest = before;
        }
        scratch.clear();
        let (mut fresh, mut count) = (None, None);
        if let (true, Some(group)) = (encrypted, &self.group) {
            let (before, trailer) = split(rest, ENCRYPTION_LEN, "an encrypted body")?;
            scratch.extend_from_slice(before);
            let (counter, tag) = trailer.split_at(8);
            let counter = u64::from_le_bytes(std::array::from_fn(|byte| counter[byte]));
            count = Some(counter);
            let tag = Tag::try_from(tag).map_err(|_| Refused::Changed)?;
            let key = match known.and_then(|known| known.key.as_ref()) {
                Some(key) => key,
                None => fresh.insert(session_key(group, header.session)),
            };
            let (head, body) = scratch.split_at_mut(HEADER_LEN);
            key.open_in_place_separate_tag(nonce(counter), Aad::from(head), tag, body, 0..)
                .map_err(|_| Refused::Changed)?;
        } else {
            scratch.extend_from_slice(rest);
        }
        scratch[..HEADER_LEN].copy_from_slice(&Header { flags: Flags::default(), ..header }.to_bytes());
        let is_fresh = self.keep(header.session, fresh, sender, count);
        Ok(Opened { bytes: scratch, is_fresh })
    }

    /// Sessions that were forgotten for want of room, oldest first.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Remembers what was found out of a session, and says whether its counter went on.
    fn keep(&mut self, session: u64, key: Option<LessSafeKey>, sender: usize, count: Option<u64>) -> bool {
        self.opened += 1;
        let now = self.opened;
        let next = count.map_or(0, |count| count.saturating_add(1));
        match self.known.get_mut(&session) {
            Some(known) => {
                known.used = now;
                let is_fresh = count.is_none() || next > known.counted;
                known.counted = known.counted.max(next);
                is_fresh
            }
            None => {
                if self.known.len() >= MOST_SESSIONS
                    && let Some(oldest) =
                        self.known.iter().min_by_key(|(_, known)| known.used).map(|(&session, _)| session)
                {
                    self.known.remove(&oldest);
                    self.evicted += 1;
                }
                self.known.insert(session, Known { key, sender, used: now, counted: next });
                true
            }
        }
    }
}

/// The key of a session.
fn session_key(group: &GroupKey, session: u64) -> LessSafeKey {
    let salt = Salt::new(HKDF_SHA256, &session.to_le_bytes());
    let pseudorandom = salt.extract(group.bytes());
    match pseudorandom.expand(&[INFO], &CHACHA20_POLY1305) {
        Ok(key) => LessSafeKey::new(UnboundKey::from(key)),
        // 32 bytes are far below the most that HKDF gives (RFC 5869 section 2.3).
        Err(_) => unreachable!("a key of 32 bytes"),
    }
}

fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[4..].copy_from_slice(&counter.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// The header and body, and a trailer of that length.
fn split<'a>(bytes: &'a [u8], length: usize, what: &'static str) -> Result<(&'a [u8], &'a [u8]), Malformed> {
    let at = bytes.len().checked_sub(length).filter(|&at| at >= HEADER_LEN).ok_or(Malformed::Cut(what))?;
    Ok(bytes.split_at(at))
}

/// What the key is for (RFC 5869, info).
const INFO: &[u8] = b"weir signal 1";

/// Most sessions whose keys are remembered.
const MOST_SESSIONS: usize = 4096;
