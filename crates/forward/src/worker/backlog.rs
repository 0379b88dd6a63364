//! What a lane could not send at once: copies in order, bounded in bytes.

use super::batch::Origin;
use super::join::Run;
use std::collections::VecDeque;

/// Datagrams that wait, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// Their bytes, one behind another.
    bytes: VecDeque<u8>,
    entries: VecDeque<Entry>,
}

/// A datagram that waits.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Bytes of it, header included.
    length: u32,
    /// Bytes of the header that precedes its payload.
    head: u16,
    /// Hops with which it may leave.
    hops: u8,
    /// Who sent it.
    origin: Origin,
}

impl Entry {
    /// Bytes of payload.
    fn payload(&self) -> u64 {
        u64::from(self.length) - u64::from(self.head)
    }
}

impl Backlog {
    /// Adds a datagram, a run of its own, behind the others; `false`: that would take more than `limit` bytes of memory. The room that an
    /// entry itself takes counts, so that empty datagrams are bounded, too.
    pub(super) fn push(&mut self, run: Run<'_>, origin: Origin, limit: usize) -> bool {
        let Run { head, body, hops, .. } = run;
        let length = head.len() + body.len();
        if self.occupied() + length + size_of::<Entry>() > limit {
            return false;
        }
        self.bytes.extend(head);
        self.bytes.extend(body);
        self.entries.push_back(Entry { length: length as u32, head: head.len() as u16, hops, origin });
        true
    }

    /// Bytes of memory that the datagrams take.
    pub(super) fn occupied(&self) -> usize {
        self.bytes.len() + self.entries.len() * size_of::<Entry>()
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none does.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The oldest ones, each a run of its own with its sender; one that is bent round the end of the ring has its first
    /// part as its head.
    pub(super) fn runs(&self) -> impl Iterator<Item = (Run<'_>, Origin)> {
        let (front, back) = self.bytes.as_slices();
        let mut start = 0;
        self.entries.iter().map(move |entry| {
            let end = start + entry.length as usize;
            let head = &front[start.min(front.len())..end.min(front.len())];
            let tail = &back[start.saturating_sub(front.len())..end.saturating_sub(front.len())];
            start = end;
            let (head, body) = if tail.is_empty() { (&[][..], head) } else { (head, tail) };
            (Run { head, body, segment: None, hops: entry.hops }, entry.origin)
        })
    }

    /// Takes out the oldest `count` datagrams; returns their payload bytes.
    pub(super) fn pop(&mut self, count: usize) -> u64 {
        let (mut bytes, mut payload) = (0, 0);
        for entry in self.entries.drain(..count) {
            bytes += entry.length as usize;
            payload += entry.payload();
        }
        self.bytes.drain(..bytes);
        if self.entries.is_empty() && self.bytes.capacity() > KEPT {
            // A burst of trouble must not keep its memory for ever.
            *self = Self::default();
        }
        payload
    }
}

/// Room that an empty backlog keeps, bytes.
const KEPT: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};

    use proptest::prelude::*;

    use super::*;

    const SOURCE: Origin =
        Origin { source: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9), local: None, listener: 0 };

    fn run(body: &[u8]) -> Run<'_> {
        Run { body, ..Run::default() }
    }

    #[test]
    fn it_is_full_when_it_is_full() {
        let mut backlog = Backlog::default();
        let limit = 10 * (size_of::<Entry>() + 100);
        let taken = (0..20).filter(|_| backlog.push(run(&[0; 100]), SOURCE, limit)).count();
        assert_eq!((taken, backlog.len(), backlog.occupied()), (10, 10, limit));
        let mut backlog = Backlog::default();
        let taken = (0..100).filter(|_| backlog.push(run(b""), SOURCE, limit)).count();
        assert_eq!(taken, limit / size_of::<Entry>(), "empty datagrams take room as well");
    }

    #[test]
    fn headers_are_no_payload() {
        let mut backlog = Backlog::default();
        assert!(backlog.push(Run { head: b"head", ..run(b"payload") }, SOURCE, 1_000));
        assert_eq!(backlog.runs().next().unwrap().0.body, b"headpayload");
        assert_eq!(backlog.pop(1), 7);
        assert!(backlog.is_empty());
    }

    proptest! {
        /// Against a plain queue of datagrams.
        #[test]
        fn it_is_a_queue(steps in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..300), 0..4_usize), 0..200)) {
            let mut backlog = Backlog::default();
            let mut model = VecDeque::new();
            for (datagram, out) in steps {
                if backlog.push(run(&datagram), SOURCE, 2_000) {
                    model.push_back(datagram);
                } else {
                    prop_assert!(!model.is_empty());
                }
                let here: Vec<Vec<u8>> = backlog.runs().map(|(run, _)| [run.head, run.body].concat()).collect();
                prop_assert!(here.iter().eq(&model));
                let out = out.min(model.len());
                let bytes: usize = model.drain(..out).map(|datagram| datagram.len()).sum();
                prop_assert_eq!(backlog.pop(out), bytes as u64);
            }
        }
    }
}
