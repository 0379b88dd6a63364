//! What arrived, what the program read, and what waits in its queue.

use std::net::IpAddr;

use weir_trace::{Detail, Drop, InterfaceCount, SocketTrace};

use super::drops::OwnDrop;
use super::{LedgerBuilder, counters, missing, signed};
use crate::account::book::Receiver;
use crate::account::evidence::SocketSeen;
use crate::places::Place;

impl LedgerBuilder<'_> {
    /// Its receiving socket, and those that share what comes; `None`: nobody received.
    pub(super) fn receiver(&self) -> Option<Receiver> {
        let (first, others) = self.share.receivers.split_first()?;
        let (pid, process) = first.process.clone().unzip();
        let bound = first.local.map(|local| local.ip()).filter(IpAddr::is_multicast);
        Some(Receiver {
            address: first.local,
            cookie: first.has_cookie.then_some(first.cookie),
            namespace: first.namespace,
            pid,
            process,
            by_descent: first.by_descent,
            group: self.evidence.group.or(bound),
            with: others.iter().filter(|socket| socket.has_cookie).map(|socket| socket.cookie).collect(),
        })
    }

    /// What came to the port in a namespace.
    pub(super) fn came(&self, namespace: u32) -> impl Iterator<Item = &InterfaceCount> {
        let passages = self.evidence.trace.arrivals.iter();
        passages.filter(move |passage| passage.namespace == namespace && passage.port == self.evidence.port)
    }

    pub(super) fn arrivals(&self, namespace: u32) -> u64 {
        self.came(namespace).map(|passage| passage.datagrams).sum()
    }

    /// Datagrams that came to the receiver's namespace.
    pub(super) fn arrived(&self) -> Option<u64> {
        let home = self.home?;
        if self.evidence.detail != Some(Detail::Everything) {
            return None;
        }
        if self.share.partial.is_some() {
            let own = self.drops.iter().filter(|own| !own.after_enqueue && self.is_receiver(own.drop.cookie));
            let enqueued: u64 = self.receiver_traces().iter().map(|socket| socket.enqueued).sum();
            return Some(own.map(|own| own.drop.datagrams).sum::<u64>() + enqueued);
        }
        // The processor's backlog comes before the place where arrivals are counted.
        let is_backlog = |drop: &&Drop| {
            let place = Place::of_drop(&drop.reason, &drop.function, drop.outgoing);
            place == Place::Backlog && drop.namespace == home && !drop.outgoing
        };
        let backlog = self.drops.iter().map(|own| &own.drop).filter(is_backlog);
        Some(self.arrivals(home) + backlog.map(|drop| drop.datagrams).sum::<u64>())
    }

    /// What was read, waits or was dropped after arrival has arrived, if it was not counted so yet: the totals were not
    /// read at one instant, or the trace missed it.
    pub(super) fn at_least_passed(&self, arrived: u64, received: Option<u64>, queue: Option<u64>) -> u64 {
        let passed = received.unwrap_or(0) + queue.unwrap_or(0) + self.dropped_after_arrival();
        let short = passed.saturating_sub(arrived);
        if short <= self.evidence.moving + self.evidence.trace.missed.total() { arrived + short } else { arrived }
    }

    pub(super) fn receiver_traces(&self) -> Vec<SocketTrace> {
        let of = |socket: &&SocketTrace| self.is_receiver(socket.cookie);
        self.evidence.trace.sockets.iter().filter(of).copied().collect()
    }

    /// What the program read, and what waits in its queue; `None`: unknown.
    pub(super) fn received(&mut self) -> (Option<u64>, Option<u64>) {
        if self.share.receivers.is_empty() {
            return (Some(0), Some(0));
        }
        let session = self.evidence.received.as_ref().filter(|session| session.port == self.evidence.port);
        let session = session.map(|session| session.received);
        // Of several receivers of a group nobody knows whose report it is, unless the trace does.
        let several = self.share.copies && self.evidence.sockets.len() > self.share.receivers.len();
        let session = session.filter(|_| !several);
        if self.evidence.detail.is_none_or(|detail| detail < Detail::Queues) {
            let received = session.or_else(|| self.received_alone());
            if received.is_none() {
                let words = "what the program read: only a trace or its own report tells (--received FILE)";
                self.unknown.push(words.to_owned());
            }
            let queued: u64 = self.share.receivers.iter().map(|socket| u64::from(socket.queued)).sum();
            if queued > 0 {
                self.unknown.push(format!("how many datagrams the {queued} bytes in the receive queue are"));
                return (received, None);
            }
            return (received, Some(0));
        }
        let (mut received, mut queue) = (Some(0), Some(0));
        for socket in &self.share.receivers {
            let (read, queued) = self.read_by(socket);
            if read.is_none() {
                self.unknown.push(READ_JOINED.to_owned());
            }
            if queued.is_none() {
                let words = "how many datagrams wait in the receive queue: some are joined (UDP_GRO)";
                self.unknown.push(words.to_owned());
            }
            received = received.zip(read).map(|(sum, read)| sum + read);
            queue = queue.zip(queued).map(|(sum, queued)| sum + queued);
        }
        (self.believe_session("read", received, session), queue)
    }

    /// What a program counted goes before the trace's, unless that saw more and missed nothing.
    pub(super) fn believe_session(&mut self, what: &str, traced: Option<u64>, session: Option<u64>) -> Option<u64> {
        let Some(session) = session else { return traced };
        match traced {
            Some(traced) if traced >= session && self.evidence.trace.missed.total() == 0 => {
                let beyond = traced - session;
                self.explanation
                    .extend((beyond > 0).then(|| format!("{beyond} of those {what} were not of that session")));
                Some(traced)
            }
            traced => {
                let told = traced.map(|traced| format!("the session {what} {session}, of which {traced} were traced"));
                self.explanation.extend(told);
                Some(session)
            }
        }
    }

    /// What was read of one socket, and what waits in its queue.
    fn read_by(&self, socket: &SocketSeen) -> (Option<u64>, Option<u64>) {
        let Some(traced) = self.evidence.trace.sockets.iter().find(|traced| traced.cookie == socket.cookie) else {
            return (
                Some(0),
                if socket.queued == 0 || socket.queued == socket.queued_at_start { Some(0) } else { None },
            );
        };
        // Some are dropped after they were queued: a wrong checksum is found when they are read. Of several that share what comes,
        // each had its own: that of those which are gone is what they left.
        let is_alone = self.evidence.sockets.len() < 2 || self.share.receivers.len() < 2;
        let is_own = |own: &&OwnDrop| own.drop.cookie == socket.cookie || own.drop.cookie == 0 && is_alone;
        let after = self.drops.iter().filter(|own| own.after_enqueue && !own.drop.outgoing).filter(is_own);
        let after: u64 = after.map(|own| own.drop.buffers).sum();
        let balance = signed(traced.enqueued) - signed(traced.reads) - signed(after);
        // What waited before the first reading was not sent, nor queued, in the time accounted for. It was read first.
        let carried = if socket.queued_at_start == 0 { Some(0) } else { traced.queued_before };
        let Some(carried) = carried else { return (None, None) };
        let carried = signed(carried.min(traced.reads));
        let waiting = if socket.queued == 0 { 0 } else { (balance + carried).max(0).unsigned_abs() };
        let carried = carried.unsigned_abs();
        // What came into a queue that is empty was read, though the trace may have missed that.
        let is_empty = socket.queued == 0 && !socket.gone;
        let emptied = if is_empty { missing(signed(traced.enqueued) - signed(after)) } else { 0 };
        match traced.read_datagrams {
            Some(read) if read == traced.reads => (Some(read.saturating_sub(carried).max(emptied)), Some(waiting)),
            // Joined: about as many in each buffer that waits as in those that were read.
            Some(read) => {
                let each = |buffers: u64| (buffers * read).checked_div(traced.reads).unwrap_or(buffers);
                (Some(read.saturating_sub(each(carried))), (waiting == 0).then_some(0))
            }
            None => (None, (waiting == 0).then_some(0)),
        }
    }

    /// Where nothing was traced, or the trace missed events, the socket's own counter knows better.
    pub(super) fn correct_by_socket(&mut self) {
        if !self.is_whole() {
            self.add_untraced(self.untraced());
        }
    }

    /// Whether something was traced, and nothing missed.
    pub(super) fn is_whole(&self) -> bool {
        self.evidence.detail.is_some() && self.evidence.trace.missed.total() == 0
    }

    /// Of what is missing, what the socket counted as dropped and no tracepoint told.
    pub(super) fn add_untold(&mut self) {
        if self.is_whole() {
            self.add_untraced(self.missing().min(self.untraced()));
        }
    }

    fn add_untraced(&mut self, drops: u64) {
        if drops == 0 {
            return;
        }
        let home = self.home();
        let traced = |place: Place| self.places.buffers_at(place);
        let most_traced = CLASSES.into_iter().filter(|place| traced(*place) > 0).max_by_key(|place| traced(*place));
        let told = counters::at_sockets(drops, home, &traced).or(most_traced.map(|place| vec![(place, drops)]));
        if told.is_none() {
            self.unknown.push(counters::why_dropped(drops, home));
        }
        let counted = home.map(counters::classes).unwrap_or_default();
        for (place, drops) in told.unwrap_or_else(|| vec![(Place::Other, drops)]) {
            let is_same = counted.contains(&(place, drops + self.places.buffers_at(place)));
            self.places.add(place, drops, "socket drops", "", "", self.home);
            if !is_same {
                self.places.believe(place, OWN_SOCKET.to_owned());
            }
        }
    }

    /// Drops that the sockets counted (`sk_drops`) and the trace did not, buffers.
    fn untraced(&self) -> u64 {
        let drops: u64 = self.share.receivers.iter().map(|socket| socket.drops).sum();
        let traced: u64 = CLASSES.iter().map(|place| self.places.buffers_at(*place)).sum();
        drops.saturating_sub(traced)
    }
}

const OWN_SOCKET: &str = "the socket's own counter: others miss drops, or count other sockets, too";

const READ_JOINED: &str = "how many datagrams the program read: joined ones (UDP_GRO) of different sizes";

/// What a socket counts as its drops.
const CLASSES: [Place; 4] = [Place::ReceiveBuffer, Place::UdpChecksum, Place::SocketFilter, Place::UdpMemory];
