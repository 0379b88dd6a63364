//! What the two ends of test messages tell each other beside them: one asks the other to send, and each tells what it received.
//!
//! Every control message is [`CONTROL_LEN`] bytes, so that no answer is longer than what it answers. All numbers are big-endian.
//!
//! | offset | bytes | field | |
//! |---|---|---|---|
//! | 0 | 1 | magic | `0xA7`, that of a [probe](crate::probe) |
//! | 1 | 1 | version, flags | version 2 in the upper four bits; flags: 8, which no probe has |
//! | 2 | 2 | session | of the messages in either direction |
//! | 4 | 1 | kind | 1 ask, 2 challenge, 3 granted, 4 refused, 5 alive, 6 account |
//! | 5 | 1 | detail | ask: 1 by schedule, 2 both directions; refused: 1 rate, 2 duration, 3 number, 4 payload; account: 1 given, 2 end announced |
//! | 6 | 2 | | zero |
//! | 8 | 8 | request | random; tells one request of an asking end from others |
//! | 16 | 8 | issued | of a cookie: when, by the clock of the end that issued it; 0: there is no cookie |
//! | 24 | 16 | tag | of a cookie: what only that end can make of request, address and time |
//! | 40 | 144 | numbers | 18 of 8 bytes, by kind |
//! | 184 | 4 | | zero |
//! | 188 | 4 | mark | `WEIR` |
//!
//! Numbers of an ask: payload bytes, interval and duration (ns), count (0: none). Of refused: the most that is allowed (bit/s, ns,
//! one, bytes). Of an account those of [`Account`], in their order; all ones: unknown.

use crate::probe::{MAGIC, MARK, VERSION};

/// Bytes of every control message.
pub const CONTROL_LEN: usize = 192;

/// A control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// Of the messages in either direction.
    pub session: u16,
    /// Random; tells one request from others.
    pub request: u64,
    /// What the answering end gave the asking one, to be shown again; `None`: nothing.
    pub cookie: Option<Cookie>,
    /// What it says.
    pub says: Says,
}

/// What proves that its bearer receives at its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie {
    /// When, ns by the issuer's clock; not 0.
    pub issued: u64,
    /// What only the issuer can make.
    pub tag: [u8; 16],
}

/// What a control message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// Send me messages.
    Ask(Terms),
    /// Show that you receive: ask again with this cookie.
    Challenge,
    /// They come.
    Granted,
    /// They do not.
    Refused(Refusal),
    /// I am still here; answered by a new cookie.
    Alive,
    /// What I received. `None`: I was sent nothing, but have yours.
    Account(Option<Account>),
}

/// The messages asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Bytes of a message.
    pub payload: u64,
    /// Time between messages, ns.
    pub interval: u64,
    /// For how long, ns.
    pub duration: u64,
    /// How many at most; 0: no such bound.
    pub count: u64,
    /// By a fixed schedule, not an interval after each other.
    pub scheduled: bool,
    /// Whether the asking end sends, too.
    pub both: bool,
}

/// Why messages asked for do not come, and the most that is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// All flows together, bit/s.
    Rate(u64),
    /// ns.
    Duration(u64),
    /// Flows at once.
    Flows(u64),
    /// Payload bytes of a message.
    Payload(u64),
}

/// What an end received. `None`: unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Whether `sent` was announced; else it is the least.
    pub announced: bool,
    /// Messages sent.
    pub sent: u64,
    /// Messages received, duplicates not counted.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Messages received again.
    pub duplicated: u64,
    /// Messages behind one with a higher number.
    pub reordered: u64,
    /// Messages too late to tell whether they are duplicates.
    pub stale: u64,
    /// From the first arrival to the last, ns.
    pub span: u64,
    /// RFC 3550, ns.
    pub jitter: Option<u64>,
    /// Whether both ends have one clock.
    pub same_machine: Option<bool>,
    /// Messages received before they were sent.
    pub negative: u64,
    /// Delays measured.
    pub delay_n: u64,
    /// Their mean, ns.
    pub delay_mean: Option<u64>,
    /// Their median, ns.
    pub delay_p50: Option<u64>,
    /// Of 99 % of them, ns.
    pub delay_p99: Option<u64>,
    /// The largest, ns.
    pub delay_max: Option<u64>,
    /// Messages that the end that tells this was to send itself and did not.
    pub shortfall: Option<u64>,
    /// What it drew when it began to send; 0: nothing.
    pub incarnation: u64,
}

/// Whether these bytes begin as a control message does. Two suffice to tell.
pub fn is_control(bytes: &[u8]) -> bool {
    bytes.len() >= 2 && bytes[0] == MAGIC && bytes[1] == VERSION << 4 | CONTROL
}

impl Control {
    /// Reads it; `None`: these bytes are none.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != CONTROL_LEN || !is_control(bytes) || &bytes[188..192] != MARK {
            return None;
        }
        let u64_at = |at: usize| bytes[at..at + 8].iter().fold(0, |sum: u64, &byte| sum << 8 | u64::from(byte));
        let number = |index: usize| u64_at(40 + index * 8);
        let detail = bytes[5];
        let says = match bytes[4] {
            1 => Says::Ask(Terms {
                payload: number(0),
                interval: number(1),
                duration: number(2),
                count: number(3),
                scheduled: detail & 1 != 0,
                both: detail & 2 != 0,
            }),
            2 => Says::Challenge,
            3 => Says::Granted,
            4 => Says::Refused(match detail {
                1 => Refusal::Rate(number(0)),
                2 => Refusal::Duration(number(0)),
                3 => Refusal::Flows(number(0)),
                4 => Refusal::Payload(number(0)),
                _ => return None,
            }),
            5 => Says::Alive,
            6 if detail & 1 == 0 => Says::Account(None),
            6 => Says::Account(Some(Account::read(detail & 2 != 0, number))),
            _ => return None,
        };
        let mut tag = [0; 16];
        tag.copy_from_slice(&bytes[24..40]);
        let cookie = Some(Cookie { issued: u64_at(16), tag }).filter(|cookie| cookie.issued != 0);
        Some(Self { session: u16::from_be_bytes([bytes[2], bytes[3]]), request: u64_at(8), cookie, says })
    }

    /// Its bytes.
    pub fn bytes(&self) -> [u8; CONTROL_LEN] {
        let mut bytes = [0; CONTROL_LEN];
        let (kind, detail, numbers) = self.says.parts();
        bytes[0] = MAGIC;
        bytes[1] = VERSION << 4 | CONTROL;
        bytes[2..4].copy_from_slice(&self.session.to_be_bytes());
        (bytes[4], bytes[5]) = (kind, detail);
        bytes[8..16].copy_from_slice(&self.request.to_be_bytes());
        if let Some(cookie) = &self.cookie {
            bytes[16..24].copy_from_slice(&cookie.issued.to_be_bytes());
            bytes[24..40].copy_from_slice(&cookie.tag);
        }
        for (field, number) in bytes[40..184].chunks_exact_mut(8).zip(numbers) {
            field.copy_from_slice(&number.to_be_bytes());
        }
        bytes[188..192].copy_from_slice(MARK);
        bytes
    }
}

impl Says {
    /// Kind, detail and numbers.
    fn parts(&self) -> (u8, u8, [u64; NUMBERS]) {
        let mut numbers = [0; NUMBERS];
        let (kind, detail) = match *self {
            Self::Ask(terms) => {
                numbers[..4].copy_from_slice(&[terms.payload, terms.interval, terms.duration, terms.count]);
                (1, u8::from(terms.scheduled) | u8::from(terms.both) << 1)
            }
            Self::Challenge => (2, 0),
            Self::Granted => (3, 0),
            Self::Refused(refusal) => {
                let (detail, most) = match refusal {
                    Refusal::Rate(most) => (1, most),
                    Refusal::Duration(most) => (2, most),
                    Refusal::Flows(most) => (3, most),
                    Refusal::Payload(most) => (4, most),
                };
                numbers[0] = most;
                (4, detail)
            }
            Self::Alive => (5, 0),
            Self::Account(None) => (6, 0),
            Self::Account(Some(account)) => {
                numbers = account.numbers();
                (6, 1 | u8::from(account.announced) << 1)
            }
        };
        (kind, detail, numbers)
    }
}

impl Account {
    fn read(announced: bool, number: impl Fn(usize) -> u64) -> Self {
        let known = |index| Some(number(index)).filter(|&number| number != UNKNOWN);
        Self {
            announced,
            sent: number(0),
            received: number(1),
            received_bytes: number(2),
            duplicated: number(3),
            reordered: number(4),
            stale: number(5),
            span: number(6),
            jitter: known(7),
            same_machine: known(8).map(|same| same == 1),
            negative: number(9),
            delay_n: number(10),
            delay_mean: known(11),
            delay_p50: known(12),
            delay_p99: known(13),
            delay_max: known(14),
            shortfall: known(15),
            incarnation: number(16),
        }
    }

    fn numbers(&self) -> [u64; NUMBERS] {
        let known = |number: Option<u64>| number.unwrap_or(UNKNOWN);
        [
            self.sent,
            self.received,
            self.received_bytes,
            self.duplicated,
            self.reordered,
            self.stale,
            self.span,
            known(self.jitter),
            known(self.same_machine.map(u64::from)),
            self.negative,
            self.delay_n,
            known(self.delay_mean),
            known(self.delay_p50),
            known(self.delay_p99),
            known(self.delay_max),
            known(self.shortfall),
            self.incarnation,
            0,
        ]
    }
}

const CONTROL: u8 = 8;
const NUMBERS: usize = 18;
const UNKNOWN: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::probe::Probe;

    fn accounts() -> impl Strategy<Value = Account> {
        let known = || proptest::option::of(0..UNKNOWN);
        let counts = any::<(bool, [u64; 7], [u64; 3])>();
        let delays = (known(), known(), known(), known(), known(), known());
        (counts, delays, any::<Option<bool>>()).prop_map(|((announced, all, more), delays, same_machine)| {
            let [sent, received, received_bytes, duplicated, reordered, stale, span] = all;
            let [negative, delay_n, incarnation] = more;
            let (jitter, delay_mean, delay_p50, delay_p99, delay_max, shortfall) = delays;
            Account {
                announced,
                sent,
                received,
                received_bytes,
                duplicated,
                reordered,
                stale,
                span,
                jitter,
                same_machine,
                negative,
                delay_n,
                delay_mean,
                delay_p50,
                delay_p99,
                delay_max,
                shortfall,
                incarnation,
            }
        })
    }

    fn all() -> impl Strategy<Value = Control> {
        let terms =
            any::<([u64; 4], bool, bool)>().prop_map(|([payload, interval, duration, count], scheduled, both)| {
                Says::Ask(Terms { payload, interval, duration, count, scheduled, both })
            });
        let refusals = any::<(u8, u64)>().prop_map(|(kind, most)| {
            Says::Refused(match kind % 4 {
                0 => Refusal::Rate(most),
                1 => Refusal::Duration(most),
                2 => Refusal::Flows(most),
                _ => Refusal::Payload(most),
            })
        });
        let says = prop_oneof![
            terms,
            refusals,
            Just(Says::Challenge),
            Just(Says::Granted),
            Just(Says::Alive),
            proptest::option::of(accounts()).prop_map(Says::Account),
        ];
        let cookie = proptest::option::of((1u64.., any::<[u8; 16]>()));
        (any::<(u16, u64)>(), cookie, says).prop_map(|((session, request), cookie, says)| Control {
            session,
            request,
            cookie: cookie.map(|(issued, tag)| Cookie { issued, tag }),
            says,
        })
    }

    proptest! {
        #[test]
        fn comes_back_as_it_went(control in all()) {
            let bytes = control.bytes();
            prop_assert_eq!(Control::parse(&bytes), Some(control));
            prop_assert!(is_control(&bytes));
            prop_assert!(Probe::parse_datagram(&bytes).is_err(), "nobody takes it for a message");
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), kind in any::<[u8; 2]>()) {
            let _ = Control::parse(&bytes);
            let mut bytes = bytes;
            bytes.resize(CONTROL_LEN, 7);
            bytes[..2].copy_from_slice(&[MAGIC, VERSION << 4 | CONTROL]);
            bytes[4..6].copy_from_slice(&kind);
            bytes[188..].copy_from_slice(MARK);
            if let Some(control) = Control::parse(&bytes) {
                prop_assert_eq!(Control::parse(&control.bytes()), Some(control));
            }
        }
    }
}
