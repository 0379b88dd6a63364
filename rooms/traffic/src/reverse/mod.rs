//! Messages the other way round: one end asks the other to send, so that a receiver behind address translation or a firewall
//! can have messages, and both directions can go at once.
//!
//! ```text
//! asking end                                   answering end (a Receiver that allows it)
//!   ask ------------------------------------->   keeps nothing
//!   <------------------- challenge with cookie   a code over address, port, request and time
//!   ask with cookie ------------------------->   checks the code, its age, the limits; starts a flow
//!   <----------------------- granted, messages
//!   alive with the newest cookie ------------>   ... each 200 ms; a flow ends where none comes for 3 s
//!   <---------------------- alive, next cookie
//!   account of what came -------------------->   when the end was announced
//!   <---------------- account of what came here
//! ```
//!
//! Over UDP a source address proves nothing. Who forges one gets an answer sent to it that is as long as the request, and
//! never the cookie that a flow takes; nor can it keep a flow going to somebody who has left, since each sign of life
//! shows a cookie that the answering end has sent there within the last seconds. Over TCP the handshake has proved as much.

mod caller;
mod client;
mod cookie;
mod desk;
mod front;
mod limits;
mod stream_client;
pub(crate) mod stream_flow;

use std::net::SocketAddr;

use weir_program::clock::{self, Nanos};
use weir_wire::control::Account;

pub use self::client::{Client, ClientReport};
pub(crate) use self::front::Front;
pub(crate) use self::limits::Limits;
use crate::{Machine, SendReport, SessionReport};

/// What became of messages that were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parted {
    /// They were sent to the end, and both ends have told what they received.
    Told,
    /// They were sent to the end; the other end has not told what it received.
    Untold,
    /// Nobody listens there (ICMP, or a connection refused).
    Unreachable,
    /// The ask was never answered.
    Unanswered,
    /// It was refused.
    Refused(weir_wire::control::Refusal),
    /// The other end has fallen silent in the middle.
    Silent,
    /// A stop ended it.
    Stopped,
    /// The socket or the connection failed.
    Failed,
}

/// What a receiver sent to one that asked it to.
#[derive(Debug)]
pub struct ReverseReport {
    /// Who asked.
    pub peer: SocketAddr,
    /// Number of the session, of either direction.
    pub session: u16,
    /// Whether the other end sent, too.
    pub both: bool,
    /// What was sent.
    pub sent: SendReport,
    /// What the other end received; `None`: it never told.
    pub account: Option<Account>,
    /// How it ended.
    pub parted: Parted,
}

/// What a receiver of requests did with those that it did not grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Askers that wanted more than the limits, each counted once.
    pub refused: u64,
    /// Of these, askers that were forgotten, since there were so many: one that asks again is counted again.
    pub forgotten: u64,
    /// Cookies shown that were not ours, not those of the sender's address, or too old.
    pub forged: u64,
    /// Requests that got no answer, since so many came within a second.
    pub unanswered: u64,
    /// Flows that have ended and are not in the report, since there are so many.
    pub unlisted: u64,
}

/// What a session's receiver tells of it.
pub(crate) fn account_of(session: &SessionReport) -> Account {
    let same_machine = match session.machine {
        Machine::Same => Some(true),
        Machine::Other => Some(false),
        Machine::Unknown => None,
    };
    let delays = (same_machine == Some(true)).then(|| session.delays.delays());
    let ns = |us: f64| (us * 1e3).round() as u64;
    let quantile = |q| delays.and_then(|delays| delays.quantile_us(q)).map(|estimate| ns(estimate.value));
    Account {
        announced: session.announced.is_some(),
        sent: session.sent_at_least(),
        received: session.delivered,
        received_bytes: session.delivered_bytes,
        duplicated: session.duplicates,
        reordered: session.reordered,
        stale: session.stale,
        span: session.last_arrival - session.first_arrival,
        jitter: (session.delivered > 1).then_some(session.jitter_ns.round() as u64),
        same_machine,
        negative: session.negative,
        delay_n: delays.map_or(0, |delays| delays.n()),
        delay_mean: delays.and_then(|delays| delays.mean_us()).map(ns),
        delay_p50: quantile(0.5),
        delay_p99: quantile(0.99),
        delay_max: delays.and_then(|delays| delays.max_us()).map(ns),
        shortfall: None,
        incarnation: session.incarnation.into(),
    }
}

/// The end of what was sent, to be said once more.
fn end_of(session: u16, sent: &SendReport) -> [u8; weir_wire::probe::EXTENDED_LEN] {
    use weir_wire::probe::{EXTENDED_LEN, Extension, Kind, Probe};
    let at = clock::now();
    let extension = Extension {
        intended: at,
        clock: clock::id().map_or(0, std::num::NonZeroU32::get),
        incarnation: sent.incarnation,
        length: EXTENDED_LEN as u32,
    };
    let probe = Probe { kind: Kind::End, session, sequence: sent.sent as u32, sent: at, extension: Some(extension) };
    let mut bytes = [0; EXTENDED_LEN];
    // There is room by construction.
    let _ = probe.write(&mut bytes);
    bytes
}

/// From one sign of life to the next.
const ALIVE: Nanos = 200_000_000;

/// Without one for so long the other end has gone: 15 of them lost in a row, of which half the packets lost make one in 30,000.
const SILENCE: Nanos = 3_000_000_000;

/// From one try to the next of what is answered.
const AGAIN: Nanos = 100_000_000;

/// Looks at what goes on in other threads, while something does.
pub(crate) const LOOK: Nanos = 20_000_000;
