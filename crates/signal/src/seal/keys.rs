//! Keys in files: one line of words, `weir-signal-group-key 5f…`, 64 hexadecimal digits.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair};

/// What all of a group encrypt with.
#[derive(Clone)]
pub struct GroupKey([u8; 32]);

/// What a sender signs with.
#[derive(Clone)]
pub struct SigningKey([u8; 32]);

/// By which others know who signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PublicKey([u8; 32]);

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or written.
    #[error("key {}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is a file already.
    #[error("key {}: there is a file of this name, which is not overwritten (choose another)", .0.display())]
    Exists(PathBuf),
    /// Others may read a secret.
    #[error("key {}: others may read it (chmod 600 {})", .0.display(), .0.display())]
    Open(PathBuf),
    /// It is something else.
    #[error("key {}: not `{kind}` and 64 hexadecimal digits (make one with `weir monitor key`)", path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// What its line begins with.
        kind: &'static str,
    },
    /// It is a key of another kind.
    #[error("key {}: it is a `{found}`, and a `{wanted}` is needed (name the file of that)", path.display())]
    Kind {
        /// Which.
        path: PathBuf,
        /// What its line begins with.
        found: &'static str,
        /// And is to begin with.
        wanted: &'static str,
    },
    /// The kernel gives no random numbers.
    #[error("no random numbers from the kernel")]
    Random,
}

impl GroupKey {
    /// Reads one that nobody else may read.
    ///
    /// # Errors
    /// One line.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        secret(path, GROUP).map(Self)
    }

    /// Makes one, in a new file.
    ///
    /// # Errors
    /// The file is there already, or cannot be made.
    pub fn create(path: &Path) -> Result<Self, KeyError> {
        let key = random()?;
        write(path, GROUP, &key, 0o600)?;
        Ok(Self(key))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl SigningKey {
    /// Reads one that nobody else may read.
    ///
    /// # Errors
    /// One line.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        secret(path, SIGNING).map(Self)
    }

    /// Makes one in a new file, and in `public` what others know it by.
    ///
    /// # Errors
    /// One of the files is there already, or cannot be made.
    pub fn create(path: &Path, public: &Path) -> Result<Self, KeyError> {
        let key = Self(random()?);
        write(path, SIGNING, &key.0, 0o600)?;
        write(public, PUBLIC, &key.public().0, 0o644)?;
        Ok(key)
    }

    /// By which others know who signed.
    pub fn public(&self) -> PublicKey {
        let pair = self.clone().into_pair();
        PublicKey(std::array::from_fn(|byte| pair.public_key().as_ref()[byte]))
    }

    pub(super) fn into_pair(self) -> Ed25519KeyPair {
        // Any 32 bytes are a seed (RFC 8032 section 5.1.5).
        Ed25519KeyPair::from_seed_unchecked(&self.0).unwrap_or_else(|_| unreachable!("a seed of 32 bytes"))
    }
}

impl PublicKey {
    /// Reads one.
    ///
    /// # Errors
    /// One line.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        read(path, PUBLIC).map(Self)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Secrets are not printed.
impl fmt::Debug for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GroupKey")
    }
}

/// Secrets are not printed.
impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey")
    }
}

fn random() -> Result<[u8; 32], KeyError> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| KeyError::Random)?;
    Ok(bytes)
}

fn secret(path: &Path, kind: &'static str) -> Result<[u8; 32], KeyError> {
    // What is no secret may be read by others: what it is comes first.
    let key = read(path, kind)?;
    let metadata = fs::metadata(path).map_err(|source| KeyError::File { path: path.to_owned(), source })?;
    if metadata.mode() & 0o077 != 0 {
        return Err(KeyError::Open(path.to_owned()));
    }
    Ok(key)
}

fn read(path: &Path, kind: &'static str) -> Result<[u8; 32], KeyError> {
    let text = fs::read_to_string(path).map_err(|source| KeyError::File { path: path.to_owned(), source })?;
    let path = || path.to_owned();
    match [GROUP, SIGNING, PUBLIC].into_iter().find(|found| *found != kind && line(&text, found).is_some()) {
        Some(found) => Err(KeyError::Kind { path: path(), found, wanted: kind }),
        None => line(&text, kind).ok_or_else(|| KeyError::Content { path: path(), kind }),
    }
}

/// The key of the one line of a file.
fn line(text: &str, kind: &str) -> Option<[u8; 32]> {
    let (word, digits) = text.trim().split_once(' ')?;
    let digits = digits.as_bytes();
    if word != kind || digits.len() != 64 {
        return None;
    }
    let nibble = |at: usize| (digits[at] as char).to_digit(16).map(|digit| digit as u8);
    let mut key = [0; 32];
    for (at, byte) in key.iter_mut().enumerate() {
        *byte = nibble(2 * at)? << 4 | nibble(2 * at + 1)?;
    }
    Some(key)
}

fn write(path: &Path, kind: &str, key: &[u8; 32], mode: u32) -> Result<(), KeyError> {
    let digits: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    file.and_then(|mut file| writeln!(file, "{kind} {digits}")).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => KeyError::Exists(path.to_owned()),
        _ => KeyError::File { path: path.to_owned(), source },
    })
}

const GROUP: &str = "weir-signal-group-key";
const SIGNING: &str = "weir-signal-signing-key";
const PUBLIC: &str = "weir-signal-public-key";
