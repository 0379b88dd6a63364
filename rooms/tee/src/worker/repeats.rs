//! Whether the same contents come again and again, and from whom: the first sign of a loop, and of much that is none.
//!
//! One in three datagrams is looked at, and no more than a thousand a second, however many come, a long one in parts, and
//! what they held is remembered for a moment. Clients that send the same counters all day look like this, too: what is suspected here is put to the
//! test by `circuit`, for which every byte counts.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::IpAddr;

use fastrand::Rng;

/// The recent contents of what a worker receives.
pub(super) struct Repeats {
    /// Keyed by chance: senders must not be able to choose contents that look the same.
    hasher: RandomState,
    /// A content, by a part of its hash: another part of it, and when it last came.
    seen: Box<[(u32, u32)]>,
    /// Time, ms.
    now: u32,
    /// Datagrams that may still be looked at.
    left: u32,
    /// Datagrams that are passed over before that: by chance, for some may come in turn with others.
    passed_over: u32,
    random: Rng,
    /// Whether something is put to the test: more is looked at, and all of it.
    closely: bool,
    /// When the votes were last counted.
    since: u32,
    /// Repeated contents since then.
    repeats: u32,
    /// Whom most of them are from, if most are from one (Boyer and Moore's majority vote).
    candidate: Option<Suspect>,
    votes: u32,
}

/// Whose datagrams may have gone round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Suspect {
    /// Index of the listener that they come to.
    pub(super) listener: usize,
    /// Where they come from; `None`: from many.
    pub(super) source: Option<IpAddr>,
}

impl Suspect {
    /// Whether a datagram is one of those.
    pub(super) fn is(&self, listener: usize, source: IpAddr) -> bool {
        self.listener == listener && self.source.is_none_or(|suspect| suspect == source)
    }
}

impl Repeats {
    /// Nothing has come yet.
    pub(super) fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            seen: vec![(0, 0); CONTENTS].into(),
            now: 0,
            left: 0,
            passed_over: 0,
            random: Rng::new(),
            closely: false,
            since: 0,
            repeats: 0,
            candidate: None,
            votes: 0,
        }
    }

    /// Says what time it is, in ms from any moment on.
    pub(super) fn tell_time(&mut self, now: u32) {
        let passed = now.wrapping_sub(self.now).min(MOST_MS);
        self.now = now;
        let each_ms = if self.closely { CLOSE_LOOKS } else { LOOKS };
        self.left = (self.left + passed * each_ms).min(MOST_MS * each_ms);
    }

    /// Looks at more than usual while something is put to the test, and at all of it: contents that differ where nobody had
    /// looked do not come again then, and nothing is held for their sake.
    pub(super) fn look_closely(&mut self, closely: bool) {
        self.closely = closely;
        self.left = 0;
    }

    /// Whether the next datagram is to be looked at.
    pub(super) fn wants(&mut self) -> bool {
        let wants = self.left > 0 && (self.closely || self.passed_over == 0);
        self.passed_over = self.passed_over.saturating_sub(1);
        wants
    }

    /// Looks at a datagram; whether its content has come before of late.
    pub(super) fn see(&mut self, payload: &[u8]) -> bool {
        self.left = self.left.saturating_sub(1);
        self.passed_over = self.random.u32(PASSED_OVER);
        let mut hasher = self.hasher.build_hasher();
        read(payload, self.closely, &mut hasher);
        let hash = hasher.finish();
        // Never 0, which is nobody's.
        let (place, mark) = (hash as usize % CONTENTS, (hash >> 32) as u32 | 1);
        let (before, at) = std::mem::replace(&mut self.seen[place], (mark, self.now));
        let again = before == mark && self.now.wrapping_sub(at) <= REMEMBERED;
        if self.now.wrapping_sub(self.since) >= WINDOW {
            (self.since, self.repeats, self.candidate, self.votes) = (self.now, 0, None, 0);
        }
        again
    }

    /// Counts a content that has come before against who sent it.
    pub(super) fn vote(&mut self, from: Suspect) {
        self.repeats += 1;
        if self.votes == 0 {
            self.candidate = Some(from);
        }
        self.votes = if self.candidate == Some(from) { self.votes + 1 } else { self.votes - 1 };
    }

    /// Whose datagrams repeat themselves so often that it is worth a test; told once.
    pub(super) fn suspect(&mut self) -> Option<Suspect> {
        if self.repeats < REPEATS {
            return None;
        }
        let one = self.candidate.filter(|_| self.votes >= REPEATS);
        let many = || {
            let any = |suspect| Suspect { source: None, ..suspect };
            self.candidate.filter(|_| self.repeats >= MANY).map(any)
        };
        let suspect = one.or_else(many)?;
        (self.repeats, self.candidate, self.votes) = (0, None, 0);
        Some(suspect)
    }
}

/// What is looked at of a content: of a long one its length, both ends and some places between them, unless all of it
/// counts. To read all of 9,000 bytes takes ten times what else is done with a datagram here.
fn read(payload: &[u8], all: bool, hasher: &mut impl Hasher) {
    hasher.write_usize(payload.len());
    if all || payload.len() <= WHOLE {
        return hasher.write(payload);
    }
    let mut looked = [0; WHOLE];
    let (first, last) = (&payload[..END], &payload[payload.len() - END..]);
    looked[..END].copy_from_slice(first);
    looked[END..2 * END].copy_from_slice(last);
    let apart = (payload.len() - 2 * END) / PLACES;
    let between = payload[END..].chunks(apart).map(|from| &from[..PLACE]);
    looked[2 * END..].chunks_exact_mut(PLACE).zip(between).for_each(|(to, from)| to.copy_from_slice(from));
    hasher.write(&looked);
}

/// Bytes of the longest content that is always looked at as a whole, and bytes that are looked at of a longer one.
const WHOLE: usize = 2 * END + PLACES * PLACE;

/// Of these, bytes at each end, places between, and bytes at each of them.
const END: usize = 64;
const PLACES: usize = 8;
const PLACE: usize = 16;

/// Datagrams that are looked at each millisecond, and how many while something is put to the test.
const LOOKS: u32 = 1;
const CLOSE_LOOKS: u32 = 64;

/// Datagrams that are passed over between two looks, two on average: where few come, the looks would be most of their cost.
const PASSED_OVER: std::ops::RangeInclusive<u32> = 0..=4;

/// Milliseconds whose looks may be made up for.
const MOST_MS: u32 = 16;

/// Contents that are remembered, and for how long, ms: what goes round is back by then.
const CONTENTS: usize = 4096;
const REMEMBERED: u32 = 2_000;

/// Time over which repeated contents are counted, ms.
const WINDOW: u32 = 1_000;

/// Repeated contents from one sender, and from many, within that time that are suspicious.
const REPEATS: u32 = 64;
const MANY: u32 = 256;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn host(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    /// Shows datagrams, each of a host and with a content, at so many a millisecond for some seconds; whom it suspects.
    fn shown(each_ms: u32, datagram: impl Fn(u32) -> (u32, u32)) -> Option<Suspect> {
        let mut repeats = Repeats::new();
        let mut looked = 0;
        for number in 0..5_000 * each_ms {
            repeats.tell_time(5_000 + number / each_ms);
            let (from, content) = datagram(number);
            if repeats.wants() {
                looked += 1;
                if repeats.see(&content.to_be_bytes()) {
                    repeats.vote(Suspect { listener: 0, source: Some(host(from)) });
                }
            }
            if let Some(suspect) = repeats.suspect() {
                return Some(suspect);
            }
        }
        assert!(looked <= 5_000 + MOST_MS, "{looked} looks");
        None
    }

    #[test]
    fn contents_that_are_all_different_are_no_sign() {
        assert_eq!(shown(100, |number| (number % 3, number)), None);
    }

    #[test]
    fn what_repeats_itself_is_suspected_with_its_sender() {
        let suspect = |source| Some(Suspect { listener: 0, source });
        for each_ms in [1, 10, 300] {
            assert_eq!(shown(each_ms, |_| (7, 1)), suspect(Some(host(7))));
            assert_eq!(shown(each_ms, |number| (7, number % 8)), suspect(Some(host(7))));
            // Others send new contents meanwhile.
            let mixed = |number: u32| if number.is_multiple_of(7) { (9, 1_000 + number) } else { (7, number % 100) };
            assert_eq!(shown(each_ms, mixed), suspect(Some(host(7))));
        }
        assert_eq!(shown(10, |number| (number % 101, number % 101)), suspect(None), "from many");
    }

    #[test]
    fn more_contents_than_are_remembered_show_all_the_same() {
        assert!(shown(300, |number| (7, number.wrapping_mul(2_654_435_761) % 20_000)).is_some());
    }

    /// Counts what it is given to read.
    #[derive(Default)]
    struct Counted(usize);

    impl Hasher for Counted {
        fn write(&mut self, bytes: &[u8]) {
            self.0 += bytes.len();
        }

        fn finish(&self) -> u64 {
            self.0 as u64
        }
    }

    #[test]
    fn a_long_content_costs_no_more_than_a_short_one_until_it_is_put_to_the_test() {
        let payload = [7; 65_527];
        for length in 0..payload.len() {
            let of = |all| {
                let mut counted = Counted::default();
                read(&payload[..length], all, &mut counted);
                counted.0 - size_of::<usize>()
            };
            assert_eq!((of(false), of(true)), (length.min(WHOLE), length), "of {length}");
        }
    }

    #[test]
    fn what_differs_where_nobody_looks_does_not_come_again_when_it_is_put_to_the_test() {
        let mut repeats = Repeats::new();
        let contents: Vec<Vec<u8>> = (0..100_u8)
            .map(|number| {
                let mut content = vec![0; 9_000];
                content[END + PLACE] = number;
                content
            })
            .collect();
        let mut come_again = |closely| {
            repeats.look_closely(closely);
            contents.iter().filter(|content| repeats.see(content)).count()
        };
        assert_eq!(come_again(false), 99, "it looks like one of a loop");
        assert_eq!(come_again(true), 0);
        // Now each has come before, and a few had to make room for others.
        assert!(come_again(true) > 80);
        // What does differ where it is looked at.
        let mut repeats = Repeats::new();
        for (at, length) in [(0, 9_000), (63, 9_000), (8_999, 9_000), (8_936, 9_000), (64, 9_000), (0, 8_999)] {
            let mut content = vec![0; length];
            content[at] = 1;
            assert!(!repeats.see(&content), "{at} of {length}");
            assert!(repeats.see(&content));
        }
    }

    #[test]
    fn slow_repetition_is_none() {
        // A heartbeat of ten a second.
        let mut repeats = Repeats::new();
        for beat in 0..1_000 {
            repeats.tell_time(beat * 100);
            if repeats.see(b"alive") {
                repeats.vote(Suspect { listener: 0, source: Some(host(1)) });
            }
            assert_eq!(repeats.suspect(), None);
        }
    }
}
