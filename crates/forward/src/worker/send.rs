//! Datagrams to a socket: joined, sent as far as the kernel takes them, and told what became of each.

use std::io::{self, IoSlice};

use nix::libc;
use weir_dgram::{Outgoing, SendProgress, Socket};

use super::join::{Joined, Run, join};
use super::recycle::recycle;
use crate::drops::Reason;

/// What became of some datagrams, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The kernel took them.
    Sent(usize),
    /// The kernel refused them.
    Dropped(usize, Reason),
}

/// What sending took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SendStatistics {
    /// The send buffer is full: datagrams behind those in [`SendScratch::outcomes`] are still to be sent.
    pub(super) blocked: bool,
    /// System calls.
    pub(super) calls: u64,
    /// Datagrams that left in joined messages.
    pub(super) joined: u64,
    /// Reports of the network that the sends ran into.
    pub(super) icmp: u64,
}

/// What takes messages in order, as far as it goes: a socket, or in tests what says when it takes how much.
pub(super) trait Transmit {
    /// As [`Socket::send_with_hops`].
    fn transmit(&self, messages: &[Outgoing<'_>], hops: impl Fn(usize) -> Option<u8>) -> SendProgress;
}

impl Transmit for Socket {
    fn transmit(&self, messages: &[Outgoing<'_>], hops: impl Fn(usize) -> Option<u8>) -> SendProgress {
        self.send_with_hops(messages, hops)
    }
}

/// Lists that every send fills anew, kept for their memory. One a worker.
#[derive(Default)]
pub(super) struct SendScratch {
    pieces: Vec<IoSlice<'static>>,
    outgoing: Vec<Outgoing<'static>>,
    messages: Vec<Joined>,
    /// What became of the datagrams of the last send, in order.
    pub(super) outcomes: Vec<Outcome>,
}

/// Sends one datagram as it is, without the lists that several need.
pub(super) fn send_alone(socket: &Socket, payload: &[u8], scratch: &mut SendScratch) -> SendStatistics {
    let pieces = [IoSlice::new(payload)];
    let progress = socket.send(&[Outgoing { pieces: &pieces, segment: None, to: None }]);
    scratch.outcomes.clear();
    let refused = progress.error.as_ref().map(reason);
    match refused {
        None => scratch.outcomes.push(Outcome::Sent(1)),
        Some(None) => {}
        Some(Some(reason)) => scratch.outcomes.push(Outcome::Dropped(1, reason)),
    }
    let (calls, icmp) = (progress.calls.into(), progress.icmp.into());
    SendStatistics { blocked: refused == Some(None), calls, joined: 0, icmp }
}

impl Outcome {
    /// How many datagrams.
    pub(super) fn datagrams(&self) -> usize {
        match *self {
            Self::Sent(count) | Self::Dropped(count, _) => count,
        }
    }
}

/// Sends runs in order, and adds what becomes of them to the outcomes. `most_hops`: each leaves with the hops that it may leave
/// with, and no more than these; `None`: with what the socket has.
pub(super) fn send<'a>(
    socket: &impl Transmit,
    most_hops: Option<u8>,
    runs: impl Iterator<Item = Run<'a>>,
    scratch: &mut SendScratch,
) -> SendStatistics {
    let mut pieces = recycle(std::mem::take(&mut scratch.pieces));
    scratch.messages.clear();
    join(runs, &mut pieces, &mut scratch.messages);
    let mut statistics = SendStatistics::default();
    {
        let mut outgoing = recycle(std::mem::take(&mut scratch.outgoing));
        outgoing.extend(scratch.messages.iter().map(|message| Outgoing {
            pieces: &pieces[message.pieces.clone()],
            segment: message.segment,
            to: None,
        }));
        let mut done = 0;
        while done < outgoing.len() {
            let hops = |at: usize| {
                // What nobody knows stays as it is.
                let hops = scratch.messages[done + at].hops;
                most_hops.filter(|_| hops > 0).map(|most| most.min(hops))
            };
            let progress = socket.transmit(&outgoing[done..], hops);
            statistics.calls += u64::from(progress.calls);
            statistics.joined += progress.joined;
            statistics.icmp += u64::from(progress.icmp);
            let whole = &scratch.messages[done..done + progress.messages];
            let sent: usize = whole.iter().map(|message| message.datagrams).sum();
            scratch.outcomes.push(Outcome::Sent(sent + progress.segments));
            done += progress.messages;
            let Some(error) = progress.error else { break };
            let Some(reason) = reason(&error) else {
                statistics.blocked = true;
                break;
            };
            // The datagrams of a message are of one size and go to one place: what is wrong with one is wrong with all,
            // and a call for each would let whoever forbids them cost us the more.
            let refused = scratch.messages[done].datagrams - progress.segments;
            scratch.outcomes.push(Outcome::Dropped(refused, reason));
            done += 1;
        }
        scratch.outgoing = recycle(outgoing);
    }
    scratch.pieces = recycle(pieces);
    statistics
}

/// Why the kernel refused a datagram; `None`: its buffer is full.
pub(super) fn reason(error: &io::Error) -> Option<Reason> {
    Some(match error.raw_os_error() {
        Some(libc::EAGAIN) => return None,
        Some(libc::EMSGSIZE) => Reason::TooLong,
        Some(libc::EPERM | libc::EACCES) => Reason::Refused,
        Some(libc::ENOBUFS | libc::ENOMEM) => Reason::NoBuffers,
        // An error that the network reported is passed over by the engine; what it insists on is no way there.
        Some(
            libc::ENETUNREACH
            | libc::EHOSTUNREACH
            | libc::ENETDOWN
            | libc::EHOSTDOWN
            | libc::ENONET
            | libc::ECONNREFUSED
            | libc::EADDRNOTAVAIL
            | libc::ENODEV
            | libc::ENXIO,
        ) => Reason::Unreachable,
        _ => Reason::OtherError,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_reasons() {
        let of = |errno| reason(&io::Error::from_raw_os_error(errno));
        assert_eq!(of(libc::EAGAIN), None);
        assert_eq!(of(libc::EPERM), Some(Reason::Refused));
        assert_eq!(of(libc::EHOSTUNREACH), Some(Reason::Unreachable));
        assert_eq!(of(libc::ENOBUFS), Some(Reason::NoBuffers));
        assert_eq!(of(libc::EMSGSIZE), Some(Reason::TooLong));
        assert_eq!(of(libc::EIO), Some(Reason::OtherError));
    }
}
