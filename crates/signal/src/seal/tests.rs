//! What is sealed opens; what was touched does not.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;
use tempfile::TempDir;
use weir_wire::signal::{Clock, Kind};

use super::*;

fn datagram(session: u64, body: &[u8]) -> Vec<u8> {
    let header = Header {
        kind: Kind::Metadata,
        flags: Flags::default(),
        clock: Clock::default(),
        count: 0,
        session,
        sequence: 9,
    };
    [&header.to_bytes(), body].concat()
}

struct Keys {
    group: Option<GroupKey>,
    signing: Option<SigningKey>,
}

/// With an encryption key, a signature, both.
fn keys(which: u8) -> Keys {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let group = GroupKey::create(&path("group")).unwrap();
    let signing = SigningKey::create(&path("key"), &path("pub")).unwrap();
    assert_eq!(PublicKey::read(&path("pub")).unwrap(), SigningKey::read(&path("key")).unwrap().public());
    Keys { group: (which & 1 != 0).then_some(group), signing: (which & 2 != 0).then_some(signing) }
}

impl Keys {
    fn sealer(&self) -> Sealer {
        Sealer::new(self.group.clone(), self.signing.clone())
    }

    fn opener(&self) -> Opener {
        let other = keys(2).signing.unwrap().public();
        Opener::new(self.group.clone(), self.signing.iter().flat_map(|key| [other, key.public()]).collect())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn what_is_sealed_opens_and_what_was_touched_does_not(
        bodies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..100), 1..5),
        session: u64,
        which in 1..4_u8,
        place: usize,
        bit in 0..8,
    ) {
        let keys = keys(which);
        let (mut sealer, mut opener, mut scratch) = (keys.sealer(), keys.opener(), Vec::new());
        for body in &bodies {
            let plain = datagram(session, body);
            let mut sealed = plain.clone();
            sealer.seal(&mut sealed).unwrap();
            prop_assert_eq!(sealed.len(), plain.len() + sealer.overhead());
            let opened = Ok(Opened { bytes: plain.as_slice(), is_fresh: true });
            prop_assert_eq!(opener.open(&sealed, &mut scratch), opened);
            let at = place % sealed.len();
            sealed[at] ^= 1_u8 << bit;
            prop_assert!(opener.open(&sealed, &mut scratch).is_err(), "byte {} changed", at);
            sealed[at] ^= 1_u8 << bit;
            for length in 0..sealed.len() {
                prop_assert!(opener.open(&sealed[..length], &mut scratch).is_err());
            }
        }
        prop_assert_eq!(opener.known.len(), 1);
    }

    #[test]
    fn arbitrary_bytes_are_refused(mut bytes: Vec<u8>, flags in 1..4_u8) {
        for (at, byte) in [b'W', b'S', 0x10, flags].into_iter().enumerate() {
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        let mut opener = keys(flags).opener();
        prop_assert!(opener.open(&bytes, &mut Vec::new()).is_err());
        prop_assert!(opener.known.is_empty());
    }
}

#[test]
fn a_session_has_a_key_of_its_own_and_no_nonce_comes_twice() {
    let keys = keys(1);
    let mut sealed = Vec::new();
    for session in [1, 2] {
        let mut sealer = keys.sealer();
        for _ in 0..2 {
            let mut one = datagram(session, b"the same words");
            sealer.seal(&mut one).unwrap();
            sealed.push(one[HEADER_LEN..].to_vec());
        }
    }
    for (at, one) in sealed.iter().enumerate() {
        assert!(!sealed[at + 1..].iter().any(|other| other[..14] == one[..14]), "{at}");
    }
}

#[test]
fn who_demands_a_key_gets_nothing_in_plain_text() {
    let mut scratch = Vec::new();
    let plain = datagram(1, b"x");
    let opened = Ok(Opened { bytes: plain.as_slice(), is_fresh: true });
    assert_eq!(Opener::default().open(&plain, &mut scratch), opened);
    assert_eq!(keys(1).opener().open(&plain, &mut scratch), Err(Refused::Plain));
    assert_eq!(keys(2).opener().open(&plain, &mut scratch), Err(Refused::Unsigned));
    for (which, refused) in [(1, Refused::NoKey), (2, Refused::NoSender)] {
        let mut sealed = plain.clone();
        keys(which).sealer().seal(&mut sealed).unwrap();
        assert_eq!(Opener::default().open(&sealed, &mut scratch), Err(refused));
        let error = if which == 1 { Refused::Changed } else { Refused::Forged };
        assert_eq!(keys(which).opener().open(&sealed, &mut scratch), Err(error), "another's key");
    }
}

#[test]
fn sessions_are_bounded() {
    let keys = keys(1);
    let (mut sealer, mut opener, mut scratch) = (keys.sealer(), keys.opener(), Vec::new());
    for session in 0..MOST_SESSIONS as u64 + 5 {
        let mut one = datagram(session, b"x");
        sealer.seal(&mut one).unwrap();
        opener.open(&one, &mut scratch).unwrap();
    }
    assert_eq!((opener.known.len(), opener.evicted()), (MOST_SESSIONS, 5));
    assert!(!opener.known.contains_key(&0));
}

#[test]
fn a_key_that_is_there_is_not_overwritten() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("k");
    GroupKey::create(&path).unwrap();
    let error = GroupKey::create(&path).err().unwrap().to_string();
    assert!(error.ends_with("k: there is a file of this name, which is not overwritten (choose another)"), "{error}");
}

#[test]
fn keys_that_others_may_read_are_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("group.key");
    GroupKey::create(&path).unwrap();
    let name = path.display();
    assert!(GroupKey::create(&path).is_err(), "it would have been overwritten");
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    let error = GroupKey::read(&path).unwrap_err().to_string();
    assert_eq!(error, format!("key {name}: others may read it (chmod 600 {name})"));
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let error = SigningKey::read(&path).unwrap_err().to_string();
    let words = "it is a `weir-signal-group-key`, and a `weir-signal-signing-key` is needed (name the file of that)";
    assert_eq!(error, format!("key {name}: {words}"));
}

/// A counter that does not go on is a copy, late, or replayed.
#[test]
fn what_was_sealed_before_is_not_fresh() {
    let keys = keys(3);
    let (mut sealer, mut opener) = (keys.sealer(), keys.opener());
    let sealed: Vec<_> = (0..3)
        .map(|_| {
            let mut bytes = datagram(7, b"x");
            sealer.seal(&mut bytes).unwrap();
            bytes
        })
        .collect();
    let fresh = [1, 0, 1, 2, 2, 1].map(|at: usize| opener.open(&sealed[at], &mut Vec::new()).unwrap().is_fresh);
    assert_eq!(fresh, [true, false, false, true, false, false]);
}
