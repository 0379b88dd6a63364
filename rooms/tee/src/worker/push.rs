//! Datagrams to a socket: joined, sent as far as the kernel takes them, and told what became of each.

use std::io::{self, IoSlice};

use nix::libc;
use weir_dgram::{Outgoing, Socket};

use super::join::{Joined, Run, join};
use crate::drops::Reason;

/// What became of some datagrams, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The kernel took them.
    Sent(usize),
    /// The kernel refused them.
    Dropped(usize, Reason),
}

/// What a push came to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pushed {
    /// The send buffer is full: datagrams behind those in [`Scratch::fates`] are still to be sent.
    pub(super) blocked: bool,
    /// System calls.
    pub(super) calls: u64,
    /// Datagrams that left in joined messages.
    pub(super) joined: u64,
    /// Reports of the network that the sends ran into.
    pub(super) icmp: u64,
}

/// Lists that every push fills anew, kept for their memory. One a worker.
#[derive(Default)]
pub(super) struct Scratch {
    pieces: Vec<IoSlice<'static>>,
    outgoing: Vec<Outgoing<'static>>,
    messages: Vec<Joined>,
    /// What became of the datagrams of the last push, in order.
    pub(super) fates: Vec<Fate>,
}

/// Sends runs in order. Afterwards [`Scratch::fates`] tells of all that are done with.
pub(super) fn push<'a>(socket: &Socket, runs: impl Iterator<Item = Run<'a>>, scratch: &mut Scratch) -> Pushed {
    let mut pieces = emptied(std::mem::take(&mut scratch.pieces));
    scratch.messages.clear();
    scratch.fates.clear();
    join(runs, &mut pieces, &mut scratch.messages);
    let mut pushed = Pushed::default();
    {
        let mut outgoing = emptied_outgoing(std::mem::take(&mut scratch.outgoing));
        outgoing.extend(scratch.messages.iter().map(|message| Outgoing {
            pieces: &pieces[message.pieces.clone()],
            segment: message.segment,
            to: None,
        }));
        let mut done = 0;
        while done < outgoing.len() {
            let taken = socket.send(&outgoing[done..]);
            pushed.calls += u64::from(taken.calls);
            pushed.joined += taken.joined;
            pushed.icmp += u64::from(taken.icmp);
            let whole: usize = scratch.messages[done..done + taken.messages].iter().map(|all| all.datagrams).sum();
            scratch.fates.push(Fate::Sent(whole + taken.segments));
            done += taken.messages;
            let Some(error) = taken.error else { break };
            let Some(reason) = reason(&error) else {
                pushed.blocked = true;
                break;
            };
            // The datagrams of a message are of one size and go to one place: what is wrong with one is wrong with all,
            // and a call for each would let whoever forbids them cost us the more.
            scratch.fates.push(Fate::Dropped(scratch.messages[done].datagrams - taken.segments, reason));
            done += 1;
        }
        scratch.outgoing = emptied_outgoing(outgoing);
    }
    scratch.pieces = emptied(pieces);
    pushed
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

/// The same memory for slices that live differently long: collecting in place allocates nothing.
pub(super) fn emptied<'b>(mut list: Vec<IoSlice<'_>>) -> Vec<IoSlice<'b>> {
    list.clear();
    list.into_iter().map(|_| IoSlice::new(&[])).collect()
}

fn emptied_outgoing<'b>(mut list: Vec<Outgoing<'_>>) -> Vec<Outgoing<'b>> {
    list.clear();
    list.into_iter().map(|_| Outgoing { pieces: &[], segment: None, to: None }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_their_memory() {
        let bytes = [0; 8];
        let mut list = vec![IoSlice::new(&bytes); 100];
        list.reserve(1_000);
        let (at, room) = (list.as_ptr() as usize, list.capacity());
        let again = emptied(list);
        assert_eq!((again.as_ptr() as usize, again.capacity(), again.len()), (at, room, 0));
    }

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
