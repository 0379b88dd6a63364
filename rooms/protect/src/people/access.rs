//! Who asks: tokens of a file, and what each may do.
//!
//! The file has a line a person: name, role, token. Tokens are kept and looked up as their SHA-256 alone: how long that takes tells nothing
//! of any. A token is too long to be guessed, so the right one counts also from an address of which
//! many wrong ones came: else whoever shares an address with the operators, as behind a proxy, could lock them out in the midst of an
//! attack.

use std::collections::{HashMap, HashSet};
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use nix::libc;
use ring::digest::{SHA256, digest};
use serde::Serialize;
use weir_program::escape::{escaped, is_obeyed};

/// What somebody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Look.
    Read,
    /// Look, approve, withdraw, extend, stop and resume.
    Act,
}

/// Somebody who was recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// As the file calls them.
    pub name: Arc<str>,
    /// What they may do.
    pub role: Role,
    token: [u8; 32],
}

/// Everybody who may ask.
#[derive(Clone, Debug, Default)]
pub struct Tokens(HashMap<[u8; 32], Person>);

impl Tokens {
    /// Reads a file that nobody else may read.
    ///
    /// # Errors
    /// One line, without any token.
    pub fn read(path: &Path) -> Result<Self> {
        let name = escaped(&path.display().to_string());
        let read = || {
            let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
            let metadata = file.metadata()?;
            if !metadata.is_file() {
                return Err(io::Error::other("it is not a regular file"));
            }
            if metadata.mode() & 0o077 != 0 {
                return Err(io::Error::other(format!("others may read it (chmod 600 {name})")));
            }
            let mut text = String::new();
            file.take(LONGEST + 1).read_to_string(&mut text)?;
            Ok(text)
        };
        let text = read().map_err(|why| anyhow!("tokens {name}: {why}"))?;
        if text.len() as u64 > LONGEST {
            bail!("tokens {name}: it is longer than {LONGEST} bytes");
        }
        Self::parse(&name, &text)
    }

    fn parse(path: &str, text: &str) -> Result<Self> {
        let (mut people, mut names) = (HashMap::new(), HashSet::new());
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |why: String| anyhow!("tokens {path}: line {}: {why}", index + 1);
            let [name, role, token] = line.split_whitespace().collect::<Vec<_>>()[..] else {
                return Err(wrong("write NAME ROLE TOKEN, with spaces between them".into()));
            };
            if name.len() > LONGEST_NAME || name.contains(is_obeyed) {
                return Err(wrong(format!("the name is longer than {LONGEST_NAME} bytes or has control characters")));
            }
            let role = match role {
                "read" => Role::Read,
                "act" => Role::Act,
                _ => return Err(wrong(format!("role of {name}: write read or act before the token"))),
            };
            if token.len() < SHORTEST || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                let why = format!("token of {name}: {SHORTEST} ASCII characters at least (openssl rand -hex 32)");
                return Err(wrong(why));
            }
            if !names.insert(name) {
                return Err(wrong(format!("{name} is there already: one line a person")));
            }
            let token = hashed(token.as_bytes());
            if people.insert(token, Person { name: name.into(), role, token }).is_some() {
                return Err(wrong(format!("token of {name}: somebody else has it")));
            }
        }
        if people.is_empty() {
            bail!("tokens {path}: nobody is in it (write a line: NAME act TOKEN, the token by `openssl rand -hex 32`)");
        }
        Ok(Self(people))
    }

    /// Whose token it is.
    pub fn recognise(&self, token: &[u8]) -> Option<Person> {
        self.0.get(&hashed(token)).cloned()
    }

    /// Whether somebody who was recognised still would be, with the same role.
    pub fn knows(&self, person: &Person) -> bool {
        self.0.get(&person.token) == Some(person)
    }
}

fn hashed(token: &[u8]) -> [u8; 32] {
    let digest = digest(&SHA256, token);
    std::array::from_fn(|index| digest.as_ref()[index])
}

/// Bytes of a file: some thousand people.
const LONGEST: u64 = 256 * 1024;

const LONGEST_NAME: usize = 64;

/// Characters of a token: 128 bits in hexadecimal.
const SHORTEST: usize = 32;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const ALICE: &str = "0123456789abcdef0123456789abcdef";
    const BOB: &str = "fedcba9876543210fedcba9876543210";

    fn parse(text: &str) -> Result<Tokens, String> {
        Tokens::parse("f", text).map_err(|error| error.to_string())
    }

    #[test]
    fn people_are_recognised_by_their_whole_token() {
        let tokens = parse(&format!("# us\n\nalice act {ALICE}\n  bob\tread  {BOB} \n")).unwrap();
        let alice = tokens.recognise(ALICE.as_bytes()).unwrap();
        assert_eq!((&*alice.name, alice.role), ("alice", Role::Act));
        assert_eq!(tokens.recognise(BOB.as_bytes()).unwrap().role, Role::Read);
        for wrong in ["", &ALICE[..31], &format!("{ALICE}0"), &ALICE.to_uppercase(), "alice"] {
            assert_eq!(tokens.recognise(wrong.as_bytes()), None, "{wrong}");
        }
        // Whoever has another token or role now is no longer known.
        assert!(tokens.knows(&alice));
        assert!(!parse(&format!("alice read {ALICE}")).unwrap().knows(&alice));
        assert!(!format!("{tokens:?}").contains(ALICE), "a token is kept");
    }

    #[test]
    fn mistakes_are_named_by_line_and_tell_no_token() {
        for (text, expected) in [
            ("", "tokens f: nobody is in it"),
            ("#\nalice act\n", "tokens f: line 2: write NAME ROLE TOKEN"),
            (&format!("alice {ALICE} act"), "tokens f: line 1: role of alice: write read or act before the token"),
            ("alice act short", "tokens f: line 1: token of alice: 32 ASCII characters"),
            (&format!("alice act {ALICE}\nalice read {BOB}"), "tokens f: line 2: alice is there already"),
            (&format!("alice act {ALICE}\nbob read {ALICE}"), "tokens f: line 2: token of bob: somebody else has it"),
            (&format!("a\u{1b}[2J act {ALICE}"), "tokens f: line 1: the name is"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(expected) && !error.contains(ALICE) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_file_is_its_owners_alone() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("tokens");
        fs::write(&file, format!("alice act {ALICE}\n")).unwrap();
        let mode = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        for open in [0o640, 0o604, 0o602] {
            mode(open);
            let error = Tokens::read(&file).unwrap_err().to_string();
            assert!(error.contains("others may read it (chmod 600 "), "{open:o}: {error}");
        }
        mode(0o600);
        assert_eq!(Tokens::read(&file).unwrap().0.len(), 1);
        assert!(Tokens::read(directory.path()).is_err());
    }
}
