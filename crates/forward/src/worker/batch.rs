//! What one look at a listener brought, and what of it goes to a lane.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;

use weir_dgram::{Inbox, Received, Socket};
use weir_wire::proxy;

use super::join::Run;
use crate::settings::Source;

/// The messages of a batch, each a datagram or a run of them. One a worker.
pub(super) struct Batch {
    inbox: Inbox,
    /// Who sent each.
    sources: Vec<Origin>,
    /// What precedes the payloads of each for destinations that want to be told the source there; empty: none does.
    headers: Vec<proxy::Header>,
    /// Hops with which each may leave; empty: they do not count.
    hops: Vec<u8>,
    /// Messages that the next look takes at most.
    most: usize,
    /// Whether the last look took as many as it may have.
    is_full: bool,
}

/// How a listener is looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// For what is there.
    Now,
    /// The same, but it waits for the first message, as long as the socket may.
    Wait,
    /// It waits for one message and takes no more.
    WaitForOne,
}

impl Batch {
    /// An empty one.
    pub(super) fn new() -> Self {
        Self {
            inbox: Inbox::new(MESSAGES, BYTES),
            sources: Vec::new(),
            headers: Vec::new(),
            hops: Vec::new(),
            most: MESSAGES,
            is_full: false,
        }
    }

    /// Takes what waits at a listener, instead of what it had; returns how many messages that is.
    ///
    /// # Errors
    /// WouldBlock: nothing is there.
    pub(super) fn receive(&mut self, socket: &Socket, look: Look) -> io::Result<usize> {
        self.sources.clear();
        self.headers.clear();
        self.hops.clear();
        let most = if look == Look::WaitForOne { 1 } else { self.most };
        self.is_full = false;
        let messages = self.inbox.take(socket, look != Look::Now, most)?;
        self.is_full = messages == most && look != Look::WaitForOne;
        let bytes: usize = self.inbox.payloads().map(<[u8]>::len).sum();
        self.most = (CACHE * messages / bytes.max(1)).clamp(1, MESSAGES);
        Ok(messages)
    }

    /// Whether the last look took as many messages as it may have: there may be more.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Shows each message with its index and its sender, and notes what sending needs of it. `headed`: for headers, the listener's
    /// address, which stands for one that the kernel does not tell. `guarded`: whether the hops that it has left count.
    /// `answered`: the number of the listener, where answers go back.
    pub(super) fn messages(
        &mut self,
        headed: Option<SocketAddr>,
        guarded: bool,
        answered: Option<u32>,
        mut show: impl FnMut(usize, Origin, &Received<'_>),
    ) {
        for (index, message) in self.inbox.messages().enumerate() {
            let local = message.local.filter(|_| answered.is_some() && !message.to_all);
            let origin = Origin { source: message.source, local, listener: answered.unwrap_or_default() };
            self.sources.push(origin);
            if let Some(listener) = headed {
                let local = message.local.map_or(listener, |local| SocketAddr::new(local, listener.port()));
                self.headers.push(proxy::encode(message.source, local));
            }
            if guarded {
                self.hops.push(message.hops.map_or(0, |hops| hops.saturating_sub(1)));
            }
            show(index, origin, &message);
        }
    }

    /// What it has received.
    pub(super) fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// What precedes each datagram of a message for a destination of this kind.
    fn header(&self, message: usize, source: Source) -> &[u8] {
        match source {
            Source::Own | Source::Preserved => &[],
            Source::Proxy => self.headers.get(message).map_or(&[], |header| header),
        }
    }
}

/// Who sent a datagram, and how an answer would get there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    pub(super) source: SocketAddr,
    /// The address of this machine that it was sent to; `None`: nobody knows or answers, or it is not this machine's alone.
    pub(super) local: Option<IpAddr>,
    /// The number of the listener's book; 0 where nobody answers.
    pub(super) listener: u32,
}

/// A part of a message: one or more whole datagrams.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Index of the message.
    pub(super) message: usize,
    /// Where it begins there.
    pub(super) start: usize,
    /// Where it ends.
    pub(super) end: usize,
    /// Bytes of each datagram but the last; `None`: one datagram.
    pub(super) segment: Option<NonZeroU16>,
}

impl Part {
    /// How many datagrams.
    pub(super) fn datagrams(&self) -> usize {
        match self.segment {
            None => 1,
            Some(segment) => (self.end - self.start).div_ceil(segment.get().into()).max(1),
        }
    }

    /// The datagrams, each as a part of its own.
    pub(super) fn singles(self) -> impl Iterator<Item = Self> {
        let each = self.segment.map_or(usize::MAX, |segment| segment.get().into());
        let count = self.datagrams();
        (0..count).map(move |number| {
            let start = self.start + number * if count > 1 { each } else { 0 };
            Self { start, end: self.end.min(start.saturating_add(each)), segment: None, ..self }
        })
    }

    /// Takes the datagram behind it in, if it is of the same run, in which each has `each` bytes; else gives it back.
    pub(super) fn extend(&mut self, next: Self, each: Option<NonZeroU16>) -> Option<Self> {
        let full = each.is_some_and(|each| (self.end - self.start).is_multiple_of(each.get().into()));
        if !full || self.message != next.message || self.end != next.start {
            return Some(next);
        }
        (self.end, self.segment) = (next.end, each);
        None
    }

    /// Its bytes as a destination of this kind gets them, and who sent them.
    pub(super) fn run<'a>(&self, batch: &'a Batch, source: Source) -> (Run<'a>, Origin) {
        let run = Run {
            head: batch.header(self.message, source),
            body: &batch.inbox.payload(self.message)[self.start..self.end],
            segment: self.segment,
            hops: batch.hops.get(self.message).copied().unwrap_or_default(),
        };
        (run, batch.sources[self.message])
    }

    /// What is left behind the first `count` datagrams, and the bytes before it; `None`: nothing is.
    pub(super) fn behind(self, count: usize) -> (usize, Option<Self>) {
        if count >= self.datagrams() {
            return (self.end - self.start, None);
        }
        let skipped = count * self.segment.map_or(0, |segment| usize::from(segment.get()));
        (skipped, Some(Self { start: self.start + skipped, ..self }))
    }
}

/// What of a batch goes to one lane.
#[derive(Default)]
pub(super) struct Pending {
    parts: Vec<Part>,
    /// Parts at the beginning that are done with.
    done: usize,
}

impl Pending {
    /// Whether it is as after [`clear`](Self::clear).
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Adds a part; see [`Part::extend`].
    pub(super) fn add(&mut self, part: Part, each: Option<NonZeroU16>) {
        let rest = match self.parts.last_mut() {
            Some(last) => last.extend(part, each),
            None => Some(part),
        };
        self.parts.extend(rest);
    }

    /// What is not done with yet.
    pub(super) fn rest(&self) -> &[Part] {
        &self.parts[self.done..]
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.parts.clear();
        self.done = 0;
    }

    /// Passes over the next `count` datagrams; returns their bytes.
    pub(super) fn pop(&mut self, mut count: usize) -> u64 {
        let mut bytes = 0;
        while count > 0
            && let Some(part) = self.parts.get_mut(self.done)
        {
            let datagrams = part.datagrams();
            let (passed, rest) = part.behind(count);
            bytes += passed as u64;
            match rest {
                Some(rest) => {
                    *part = rest;
                    break;
                }
                None => self.done += 1,
            }
            count -= datagrams;
        }
        bytes
    }
}

/// Messages of a batch.
const MESSAGES: usize = 64;

/// Bytes of a batch, about: what is received is sent from a core's own cache, which has as much in every server of the last ten
/// years (L2: 256 KiB of Broadwell, 512 KiB of Zen).
const CACHE: usize = 256 << 10;

/// Bytes of each: every datagram and every joined run fits.
const BYTES: usize = 65_535;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_comes_apart_and_together_again() {
        let whole = Part { message: 3, start: 0, end: 250, segment: NonZeroU16::new(100) };
        let singles: Vec<_> = whole.singles().collect();
        let bounds: Vec<_> = singles.iter().map(|part| (part.start, part.end)).collect();
        assert_eq!(bounds, [(0, 100), (100, 200), (200, 250)]);
        let mut first = singles[0];
        assert!(first.extend(singles[1], whole.segment).is_none());
        assert!(first.extend(singles[2], whole.segment).is_none());
        assert_eq!((first.start, first.end, first.datagrams()), (0, 250, 3));
        assert!(first.extend(singles[2], whole.segment).is_some(), "nothing follows a shorter one");
        let mut first = singles[0];
        assert!(first.extend(singles[2], whole.segment).is_some(), "one between them was left out");
    }

    #[test]
    fn what_is_left_behind_some() {
        let whole = Part { message: 0, start: 10, end: 260, segment: NonZeroU16::new(100) };
        let (bytes, rest) = whole.behind(2);
        assert_eq!((bytes, rest.map(|rest| (rest.start, rest.end))), (200, Some((210, 260))));
        assert_eq!(whole.behind(3).0, 250);
        assert!(whole.behind(3).1.is_none());
        let empty = Part { message: 0, start: 0, end: 0, segment: None };
        assert_eq!((empty.datagrams(), empty.singles().count()), (1, 1));
        assert!(empty.behind(0).1.is_some());
    }
}
