//! Closes the ledger of one receiver: a pure function of what was counted.

use std::collections::BTreeSet;

use nix::errno::Errno;
use weir_kernel::trace::{Detail, Drop, SocketTrace};

use super::book::{Ledger, Pending, Sender};
use super::evidence::{Evidence, NamespaceEvidence, SocketSeen};
use super::senders::{SendingSocket, sending_sockets};
use super::tally::Tally;
use super::{counted, level};
use crate::loss::places::Place;

/// One ledger is made of this.
pub(super) struct Subject<'a> {
    /// The port that datagrams go to.
    pub(super) port: u16,
    /// The receiving socket, or those that share what comes; empty: nobody received.
    pub(super) receivers: &'a [&'a SocketSeen],
    /// All receivers of the port.
    pub(super) all: &'a [SocketSeen],
    /// All UDP sockets seen, to name the senders.
    pub(super) everybody: &'a [SocketSeen],
    /// Whether each receiver gets every datagram.
    pub(super) copies: bool,
}

/// Closes one ledger.
pub(super) fn ledger(evidence: &Evidence, subject: &Subject<'_>) -> Ledger {
    Closing::new(evidence, subject).close()
}

struct Closing<'a> {
    evidence: &'a Evidence,
    subject: &'a Subject<'a>,
    /// The receiver's namespace; `None`: nothing came anywhere.
    home: Option<u32>,
    senders: Vec<SendingSocket>,
    places: Tally,
    /// Losses before the receiver's namespace, where nobody knows what was sent: beside the ledger.
    upstream: Tally,
    pending: Vec<Pending>,
    unknown: Vec<String>,
    explanation: Vec<String>,
}

impl<'a> Closing<'a> {
    fn new(evidence: &'a Evidence, subject: &'a Subject<'a>) -> Self {
        let senders = if evidence.detail == Some(Detail::Everything) {
            sending_sockets(&evidence.trace, subject.port, !evidence.several_ports)
        } else {
            Vec::new()
        };
        let mut closing = Closing {
            evidence,
            subject,
            home: None,
            senders,
            places: Tally::default(),
            upstream: Tally::default(),
            pending: Vec::new(),
            unknown: Vec::new(),
            explanation: Vec::new(),
        };
        closing.home = subject.receivers.first().map(|socket| socket.namespace).or_else(|| closing.guess_home());
        closing
    }

    /// Where datagrams ended that nobody received: where most of them were dropped, or came.
    fn guess_home(&self) -> Option<u32> {
        let trace = &self.evidence.trace;
        let of = |namespace: u32| {
            let dropped = trace.drops.iter().filter(|drop| drop.namespace == namespace && self.is_of_port(drop));
            let dropped: u64 = dropped.filter(|drop| !drop.outgoing).map(|drop| drop.datagrams).sum();
            (dropped, self.arrivals(namespace))
        };
        let namespaces = self.evidence.namespaces.iter().map(|ns| ns.inode);
        namespaces.max_by_key(|inode| of(*inode)).filter(|inode| of(*inode) != (0, 0))
    }

    fn close(mut self) -> Ledger {
        let traced = self.evidence.detail.is_some();
        let sent = self.sent();
        self.add_drops(sent.is_some());
        if sent.is_some() {
            self.add_failed_calls();
        }
        self.correct_by_socket();
        let arrived = self.arrived();
        let (received, queue) = self.received();
        if !traced {
            counted::places(self.evidence, self.subject, sent, received, &mut self.places, &mut self.unknown);
        }
        let (sent, base) = self.choose_base(sent, arrived);
        let departed = (sent.is_some() && !self.senders.is_empty())
            .then(|| self.senders.iter().map(|sender| sender.departed).sum());

        let received =
            if self.subject.receivers.is_empty() && self.left_for_elsewhere(departed) { None } else { received };
        let mut pending_known = true;
        match queue {
            Some(queue) => self.pend("receive queue", queue),
            None => pending_known = false,
        }
        let mut unexplained = None;
        let mut sent = sent;
        if let (Some(base), Some(received), true) = (base, received, pending_known) {
            let mut rest = signed(base) - signed(received) - signed(self.places.total()) - signed(self.pending_total());
            rest -= self.add_hardware(rest, departed, arrived);
            rest -= self.add_undecided(rest, sent.is_some());
            if rest != 0 && rest.unsigned_abs() <= self.evidence.moving {
                // The totals were not read at one instant.
                if rest > 0 {
                    self.pend("in flight", rest.unsigned_abs());
                    rest = 0;
                } else if let Some(sent) = &mut sent {
                    *sent += rest.unsigned_abs();
                    rest = 0;
                }
            }
            unexplained = Some(rest);
            self.explain_rest(rest, sent, departed, arrived);
        }
        if arrived == received {
            self.explain_bytes();
        }
        self.explain();
        let pending = pending_known.then(|| self.pending_total());
        let receiver_trace = self.receiver_traces();
        let first = self.subject.receivers.first();
        Ledger {
            port: self.subject.port,
            receiver: first.map(|_| counted::receiver(self.subject.receivers, self.evidence.group)),
            sent,
            departed,
            arrived,
            received,
            pending,
            unexplained,
            level: level::of(&receiver_trace),
            senders: self.tell_senders(),
            places: self.places.into_entries(&self.evidence.namespaces),
            pending_where: self.pending,
            unknown: self.unknown,
            explanation: self.explanation,
        }
    }

    /// Collects what was traced: all of it, or what happened after arrival.
    fn add_drops(&mut self, all: bool) {
        for drop in &self.evidence.trace.drops {
            if !self.is_of_port(drop) {
                continue;
            }
            if is_anonymous(drop) {
                let own = Drop { datagrams: self.share_of(drop), namespace: self.home.unwrap_or(0), ..drop.clone() };
                self.places.add_drop(&own);
            } else if !self.is_on_the_way(drop) {
                continue;
            } else if all || self.is_after_arrival(drop) {
                self.places.add_drop(drop);
            } else {
                self.upstream.add_drop(drop);
            }
        }
    }

    // What was sent.

    /// Datagrams that were tried to be sent; `None`: nobody was seen sending.
    fn sent(&mut self) -> Option<u64> {
        if let Some(why) = self.evidence.partial {
            self.unknown.push(format!("what was sent to it: {why}"));
            return None;
        }
        let tried: u64 = self.senders.iter().map(SendingSocket::tried).sum();
        let traced = (!self.senders.is_empty()).then_some(tried);
        let doubtful: u64 = self.senders.iter().map(|sender| sender.doubtful).sum();
        if doubtful > 0 {
            self.unknown.push(format!(
                "where {doubtful} failed calls would have gone: their socket sends to several ports and is not connected"
            ));
        }
        let vanished: u64 = self.senders.iter().map(|sender| sender.vanished).sum();
        if vanished > 0 {
            self.unknown.push(format!(
                "whether {vanished} datagrams that left nowhere were for this port: their socket sends to several"
            ));
        }
        if self.senders.iter().any(|sender| sender.guessed) {
            self.unknown.push(
                "the port of calls of which nothing departed: taken for this one, the only one followed".to_owned(),
            );
        }
        let announced = self.evidence.received.as_ref().and_then(|session| session.announced);
        let session = self.evidence.sent.as_ref().map(|session| session.sent + session.failed);
        let sent = match (traced, session) {
            (Some(traced), Some(session)) if traced >= session && self.evidence.trace.missed == 0 => {
                if traced > session {
                    self.explanation.push(format!("{} of them were not of that session", traced - session));
                }
                Some(traced)
            }
            (traced, Some(session)) => {
                if let Some(traced) = traced {
                    self.explanation.push(format!("the session sent {session}, of which {traced} were traced"));
                }
                Some(session)
            }
            (traced, None) => traced.or(announced),
        };
        if sent.is_none() {
            self.unknown.push(if self.evidence.detail == Some(Detail::Everything) {
                "before this host: nobody was seen sending here".to_owned()
            } else {
                "what was sent: only a full trace or a session tells (--sent FILE)".to_owned()
            });
        }
        sent
    }

    /// What was sent and where the ledger begins.
    fn choose_base(&mut self, sent: Option<u64>, arrived: Option<u64>) -> (Option<u64>, Option<u64>) {
        let Some(known) = sent else { return (None, arrived) };
        let after = |drop: &Drop| match is_anonymous(drop) {
            true => self.share_of(drop),
            false if self.is_on_the_way(drop) && self.is_after_arrival(drop) => drop.datagrams,
            false => 0,
        };
        let after = self.evidence.trace.drops.iter().filter(|drop| self.is_of_port(drop)).map(after);
        let before = self.places.total().saturating_sub(after.sum());
        let session = self.evidence.sent.is_some() || self.senders.is_empty();
        match arrived {
            Some(arrived) if !session && arrived + before > known + self.evidence.moving => {
                self.unknown.push(format!(
                    "what was sent: {} more came than were sent in the namespaces followed, so there is another sender \
                     (or a copy on the way)",
                    arrived + before - known
                ));
                self.places = Tally::default();
                self.add_drops(false);
                (None, Some(arrived))
            }
            _ => (sent, sent),
        }
    }

    /// Calls that failed are losses of their own, except those that tell of a drop which the trace has already.
    fn add_failed_calls(&mut self) {
        let mut unreachable_reports = self.icmp_reports();
        let mut buffers =
            self.places.at(Place::Qdisc) + self.places.at(Place::Backlog) + self.places.at(Place::Transmit);
        for sender in self.senders.clone() {
            for (&number, &calls) in &sender.failed {
                let errno = Errno::from_raw(number);
                let name = format!("{errno:?}");
                let place = match errno {
                    Errno::ENETUNREACH => Place::NoRoute,
                    Errno::EHOSTUNREACH => {
                        // With an entry `unreachable` in the routes, or told by a router of an earlier datagram.
                        let reports = calls.min(unreachable_reports);
                        unreachable_reports -= reports;
                        self.places.add(Place::SendError, reports, "send calls", &name, "", Some(sender.namespace));
                        self.places.add(
                            Place::NoRoute,
                            calls - reports,
                            "send calls",
                            &name,
                            "",
                            Some(sender.namespace),
                        );
                        continue;
                    }
                    Errno::EAGAIN => Place::SendBuffer,
                    Errno::EPERM => Place::FirewallOut,
                    Errno::ENOBUFS => Place::Qdisc,
                    _ => Place::SendError,
                };
                let dropped = self
                    .evidence
                    .trace
                    .drops
                    .iter()
                    .filter(|drop| drop.outgoing && drop.cookie == sender.cookie && drop.port == self.subject.port);
                let known = match place {
                    Place::FirewallOut => dropped
                        .filter(|drop| Place::of_drop(&drop.reason, &drop.function, true) == Place::FirewallOut)
                        .map(|drop| drop.datagrams)
                        .sum(),
                    Place::SendError if errno == Errno::EMSGSIZE => {
                        dropped.filter(|drop| drop.reason == "PKT_TOO_BIG").map(|drop| drop.datagrams).sum()
                    }
                    Place::Qdisc => {
                        let known = calls.min(buffers);
                        buffers -= known;
                        known
                    }
                    _ => 0,
                };
                let beyond = calls.saturating_sub(known);
                self.places.add(place, beyond, "send calls", &name, "", Some(sender.namespace));
            }
        }
        // What a session counted and nobody traced.
        if self.senders.is_empty()
            && let Some(session) = &self.evidence.sent
        {
            self.places.add(Place::SendError, session.failed, "session", "", "", None);
        }
    }

    /// Messages "destination unreachable" that the senders' namespaces got.
    fn icmp_reports(&self) -> u64 {
        let namespaces: BTreeSet<u32> = self.senders.iter().map(|sender| sender.namespace).collect();
        let of = |ns: &NamespaceEvidence| ns.counter("Icmp.InDestUnreachs") + ns.counter("Icmp6.InDestUnreachs");
        self.evidence.namespaces.iter().filter(|ns| namespaces.contains(&ns.inode)).map(of).sum()
    }

    fn tell_senders(&self) -> Vec<Sender> {
        let seen = |cookie: u64| self.subject.everybody.iter().find(|socket| socket.cookie == cookie);
        let process = |cookie: u64| seen(cookie).and_then(|socket| socket.process.clone()).unzip();
        self.senders
            .iter()
            .map(|sender| {
                let (pid, process) = process(sender.cookie);
                Sender { cookie: sender.cookie, namespace: sender.namespace, pid, process, sent: sender.tried() }
            })
            .collect()
    }

    // Which drops are of this ledger.

    fn is_of_port(&self, drop: &Drop) -> bool {
        // A fragment whose first piece was never seen has no port.
        drop.port == self.subject.port
            || drop.port == 0 && drop.from_port == 0 && !drop.outgoing && !self.evidence.several_ports
    }

    fn is_receiver(&self, cookie: u64) -> bool {
        self.subject.receivers.iter().any(|socket| socket.cookie == cookie)
    }

    /// The part of a drop without socket and namespace that is this receiver's. What is dropped out of a receive queue
    /// does not tell whose it was: a closed socket's balance, or a socket's own count of drops, does.
    fn share_of(&self, drop: &Drop) -> u64 {
        if !self.subject.copies || self.subject.all.len() < 2 {
            return drop.datagrams;
        }
        let closed = Place::of_drop(&drop.reason, &drop.function, false) == Place::ClosedUnread;
        let room = |socket: &&SocketSeen| {
            let traced = self.evidence.trace.sockets.iter().find(|traced| traced.cookie == socket.cookie);
            if closed {
                let left = traced.map_or(0, |traced| traced.enqueued.saturating_sub(traced.reads));
                return if socket.gone { left } else { 0 };
            }
            let known = self.evidence.trace.drops.iter().filter(|drop| drop.cookie == socket.cookie && !drop.outgoing);
            socket.drops.saturating_sub(known.map(|drop| drop.buffers).sum())
        };
        let room: u64 = self.subject.receivers.iter().map(room).sum();
        drop.datagrams.min(room)
    }

    /// Whether a drop is on the way to this receiver.
    fn is_on_the_way(&self, drop: &Drop) -> bool {
        if is_anonymous(drop) {
            return false;
        }
        let home = self.home;
        let from = |namespace: u32| self.senders.iter().any(|sender| sender.namespace == namespace);
        if drop.outgoing {
            // A group's copy for this host leaves the way before the interface's queue.
            let looped = self.subject.copies && home == Some(drop.namespace) && drop.interface != LOOPBACK;
            let place = Place::of_drop(&drop.reason, &drop.function, true);
            return !(looped && place >= Place::Neighbour);
        }
        if drop.cookie != 0 {
            return self.is_receiver(drop.cookie);
        }
        if home == Some(drop.namespace) {
            return true;
        }
        if !self.subject.copies {
            return true;
        }
        let others = self.subject.all.iter().any(|socket| socket.namespace == drop.namespace);
        let only_passes = Place::of_drop(&drop.reason, &drop.function, false) < Place::NotJoined;
        !from(drop.namespace) && !others && only_passes && !self.subject.receivers.is_empty()
    }

    /// Whether a drop happened to a datagram that counts as arrived.
    fn is_after_arrival(&self, drop: &Drop) -> bool {
        if self.evidence.partial.is_some() {
            return !drop.outgoing && drop.cookie != 0;
        }
        !drop.outgoing && self.home == Some(drop.namespace)
    }

    // What arrived and was received.

    fn arrivals(&self, namespace: u32) -> u64 {
        let passages = self.evidence.trace.arrivals.iter();
        let of = passages.filter(|passage| passage.namespace == namespace && passage.port == self.subject.port);
        of.map(|passage| passage.datagrams).sum()
    }

    /// Datagrams that came to the receiver's namespace.
    fn arrived(&self) -> Option<u64> {
        let home = self.home?;
        if self.evidence.detail != Some(Detail::Everything) {
            return None;
        }
        if self.evidence.partial.is_some() {
            let drops = self.evidence.trace.drops.iter().filter(|drop| !after_enqueue(drop));
            let drops: u64 = drops.filter(|drop| self.is_receiver(drop.cookie)).map(|drop| drop.datagrams).sum();
            let enqueued: u64 = self.receiver_traces().iter().map(|socket| socket.enqueued).sum();
            return Some(drops + enqueued);
        }
        // The processor's backlog comes before the place where arrivals are counted.
        let backlog = self.evidence.trace.drops.iter().filter(|drop| {
            drop.namespace == home
                && self.is_of_port(drop)
                && !drop.outgoing
                && Place::of_drop(&drop.reason, &drop.function, false) == Place::Backlog
        });
        Some(self.arrivals(home) + backlog.map(|drop| drop.datagrams).sum::<u64>())
    }

    fn receiver_traces(&self) -> Vec<SocketTrace> {
        let of = |socket: &&SocketTrace| self.is_receiver(socket.cookie);
        self.evidence.trace.sockets.iter().filter(of).copied().collect()
    }

    /// What the program read, and what waits in its queue; `None`: unknown.
    fn received(&mut self) -> (Option<u64>, Option<u64>) {
        if self.subject.receivers.is_empty() {
            return (Some(0), Some(0));
        }
        let session = self.evidence.received.as_ref().filter(|session| session.port == self.subject.port);
        let session = session.map(|session| session.received);
        // Of several receivers of a group nobody knows whose report it is, unless the trace does.
        let several = self.subject.copies && self.subject.all.len() > self.subject.receivers.len();
        let session = session.filter(|_| !several);
        if self.evidence.detail.is_none_or(|detail| detail < Detail::Queues) {
            let received = session.or_else(|| counted::received(self.evidence, self.subject));
            if received.is_none() {
                self.unknown
                    .push("what the program read: only a trace or its own report tells (--received FILE)".to_owned());
            }
            let queued: u64 = self.subject.receivers.iter().map(|socket| u64::from(socket.queued)).sum();
            if queued > 0 {
                self.unknown.push(format!("how many datagrams the {queued} bytes in the receive queue are"));
                return (received, None);
            }
            return (received, Some(0));
        }
        let (mut received, mut queue) = (Some(0), Some(0));
        for socket in self.subject.receivers {
            let (read, queued) = self.read_by(socket);
            received = received.zip(read).map(|(sum, read)| sum + read);
            queue = queue.zip(queued).map(|(sum, queued)| sum + queued);
        }
        match (received, session) {
            (Some(traced), Some(session)) if traced == session => {}
            (Some(traced), Some(session)) if self.evidence.trace.missed == 0 && traced > session => {
                self.explanation.push(format!("{} that it read were not of that session", traced - session));
            }
            (traced, Some(session)) => {
                if let Some(traced) = traced {
                    self.explanation.push(format!("the program counted {session}, the trace {traced}"));
                }
                received = Some(session);
            }
            (None, None) => self
                .unknown
                .push("how many datagrams the program read: joined ones (UDP_GRO) of different sizes".to_owned()),
            _ => {}
        }
        (received, queue)
    }

    /// What was read of one socket, and what waits in its queue.
    fn read_by(&self, socket: &SocketSeen) -> (Option<u64>, Option<u64>) {
        let Some(traced) = self.evidence.trace.sockets.iter().find(|traced| traced.cookie == socket.cookie) else {
            return (
                Some(0),
                if socket.queued == 0 || socket.queued == socket.queued_at_start { Some(0) } else { None },
            );
        };
        // Some are dropped after they were queued: a wrong checksum is found when they are read.
        let own = |drop: &&Drop| match is_anonymous(drop) {
            // Of several, each had its own: that of those which are gone is what they left.
            true => self.is_of_port(drop) && (self.subject.all.len() < 2 || self.subject.receivers.len() < 2),
            false => drop.cookie == socket.cookie && !drop.outgoing,
        };
        let after = self.evidence.trace.drops.iter().filter(own).filter(|drop| after_enqueue(drop));
        let after: u64 = after
            .map(|drop| if is_anonymous(drop) { self.share_of(drop).min(drop.buffers) } else { drop.buffers })
            .sum();
        let balance = signed(traced.enqueued) - signed(traced.reads) - signed(after);
        // What waited before the first reading was not sent, nor queued, in the time accounted for.
        let carried = if socket.queued_at_start == 0 { 0 } else { (-balance).max(0) };
        let waiting = if socket.queued == 0 { 0 } else { (balance + carried).max(0).unsigned_abs() };
        let carried = carried.unsigned_abs();
        match traced.read_datagrams {
            Some(read) if read == traced.reads => (Some(read.saturating_sub(carried)), Some(waiting)),
            // Joined: about as many in each buffer that waits as in those that were read.
            Some(read) => {
                let each = |buffers: u64| (buffers * read).checked_div(traced.reads).unwrap_or(buffers);
                (Some(read.saturating_sub(each(carried))), (waiting == 0).then_some(0))
            }
            None => (None, (waiting == 0).then_some(0)),
        }
    }

    /// Where the trace missed events, the socket's own counter knows better.
    fn correct_by_socket(&mut self) {
        if self.evidence.trace.missed == 0 || self.evidence.detail.is_none() {
            return;
        }
        let drops: u64 = self.subject.receivers.iter().map(|socket| socket.drops).sum();
        let classes = [Place::ReceiveBuffer, Place::UdpChecksum, Place::SocketFilter, Place::UdpMemory];
        let traced: u64 = classes.iter().map(|place| self.places.buffers_at(*place)).sum();
        let most = classes.iter().copied().max_by_key(|place| self.places.buffers_at(*place));
        if drops > traced
            && let Some(place) = most
        {
            self.places.add(place, drops - traced, "socket drops", "", "", self.home);
            self.places.believe(
                place,
                format!("the socket's own counter: the trace missed {} events", self.evidence.trace.missed),
            );
        }
    }

    // What is not decided, or nobody saw.

    fn pend(&mut self, place: &str, datagrams: u64) {
        if datagrams > 0 {
            self.pending.push(Pending { place: place.to_owned(), datagrams });
        }
    }

    fn pending_total(&self) -> u64 {
        self.pending.iter().map(|pending| pending.datagrams).sum()
    }

    /// What interfaces lost before the kernel had a datagram: they do not know ports, so no more than is missing between
    /// departure and arrival.
    fn add_hardware(&mut self, rest: i64, departed: Option<u64>, arrived: Option<u64>) -> i64 {
        let (Some(_), Some(_)) = (departed, arrived) else { return 0 };
        let mut left = u64::try_from(rest).unwrap_or(0);
        let mut added = 0;
        for namespace in &self.evidence.namespaces {
            for hardware in &namespace.hardware {
                let count = hardware.count.min(left);
                self.places.add(hardware.place, count, &hardware.counter, "", "", Some(namespace.inode));
                if count > 0 && count < hardware.count {
                    self.places.believe(
                        hardware.place,
                        format!(
                            "{} tells {}, of all ports: no more than is missing here",
                            hardware.counter, hardware.count
                        ),
                    );
                }
                left -= count;
                added += signed(count);
            }
        }
        added
    }

    /// What the kernel has not decided yet.
    fn add_undecided(&mut self, rest: i64, from_sender: bool) -> i64 {
        let mut left = u64::try_from(rest).unwrap_or(0);
        let mut added = 0;
        let namespaces = &self.evidence.namespaces;
        let queued: u64 = namespaces.iter().map(|ns| ns.queued).sum();
        let incomplete: u64 = namespaces.iter().map(|ns| ns.incomplete).sum();
        let held = if from_sender && incomplete > 0 { self.held_back() } else { 0 };
        let queued = if from_sender { queued } else { 0 };
        for (place, datagrams) in [
            ("waiting for a next hop's address", held),
            ("an interface's queue", queued),
            ("reassembly", self.evidence.trace.reassembling),
        ] {
            let count = datagrams.min(left);
            self.pend(place, count);
            left -= count;
            added += signed(count);
        }
        added
    }

    /// Datagrams that the kernel took and that neither departed nor were dropped on the way there.
    fn held_back(&self) -> u64 {
        let taken: u64 = self.senders.iter().map(|sender| sender.taken).sum();
        let departed: u64 = self.senders.iter().map(|sender| sender.departed).sum();
        taken.saturating_sub(departed).saturating_sub(self.places.at(Place::Neighbour))
    }

    /// Whether datagrams left for where nobody follows them; then it says so.
    fn left_for_elsewhere(&mut self, departed: Option<u64>) -> bool {
        let lost = self.places.at(Place::Qdisc) + self.places.at(Place::Transmit);
        let came: u64 = self.evidence.namespaces.iter().map(|ns| self.arrivals(ns.inode)).sum();
        let came = came + self.places.at(Place::Backlog);
        let left = departed.unwrap_or(0).saturating_sub(lost).saturating_sub(came);
        if left > 0 {
            self.unknown.push(format!(
                "what became of {left} that left the namespaces followed: follow the receiver's, too (on another host: --join)"
            ));
        }
        left > 0
    }

    /// Between which two points the unexplained ones vanished.
    fn explain_rest(&mut self, rest: i64, sent: Option<u64>, departed: Option<u64>, arrived: Option<u64>) {
        let (Ok(rest), Some(_), Some(departed), Some(arrived)) = (u64::try_from(rest), sent, departed, arrived) else {
            return;
        };
        if rest == 0 {
            return;
        }
        let lost = Place::all().filter(|place| (Place::Qdisc..Place::Backlog).contains(place));
        let lost: u64 = lost.map(|place| self.places.at(place)).sum();
        let missing = departed.saturating_sub(lost).saturating_sub(arrived);
        let (before, behind) = (missing.min(rest), rest - missing.min(rest));
        if before > 0 {
            self.explanation.push(format!(
                "{before} left the sender and did not come to the receiver's namespace, and no counter tells why"
            ));
        }
        if behind > 0 {
            self.explanation.push(format!(
                "{behind} came to the receiver's namespace, and neither its program nor a counter has them"
            ));
        }
    }

    /// Where every datagram that came was read, bytes are missing only where the program's buffer was too small.
    fn explain_bytes(&mut self) {
        let ([receiver], Some(home)) = (self.subject.receivers, self.home) else { return };
        let traces = self.receiver_traces();
        let [socket] = traces[..] else { return };
        if receiver.queued_at_start > 0 || self.evidence.partial.is_some() || self.evidence.trace.missed > 0 {
            return;
        }
        let passages = self.evidence.trace.arrivals.iter();
        let came = passages.filter(|passage| passage.namespace == home && passage.port == self.subject.port);
        let cut = came.map(|passage| passage.bytes).sum::<u64>().saturating_sub(socket.read_bytes);
        if cut > 0 {
            self.explanation.push(format!("{cut} bytes were cut off: {}", Place::Truncated.facts().remedy));
        }
    }

    fn explain(&mut self) {
        if self.evidence.trace.missed > 0 {
            self.unknown.push(format!(
                "{} events that the trace missed: its totals are lower bounds",
                self.evidence.trace.missed
            ));
        }
        for entry in std::mem::take(&mut self.upstream).into_entries(&self.evidence.namespaces) {
            self.explanation.push(format!(
                "{} more were dropped before they came here: {}",
                entry.datagrams,
                entry.place.facts().title
            ));
        }
        let lost = |place: Place| self.places.at(place);
        level::explain(self.subject.receivers, &self.receiver_traces(), &lost, self.evidence, &mut self.explanation);
    }
}

/// The index of `lo` in every namespace (net/core/net_namespace.c, loopback_net_init).
const LOOPBACK: u32 = 1;

/// Whether a drop happened to what was in a socket's queue already.
fn after_enqueue(drop: &Drop) -> bool {
    let function = drop.function.split('.').next().unwrap_or_default();
    match Place::of_drop(&drop.reason, &drop.function, false) {
        Place::ClosedUnread => true,
        // Found when it is read, or when poll looks at the first one (net/ipv4/udp.c, net/ipv6/udp.c).
        Place::UdpChecksum => matches!(
            function,
            "udp_recvmsg" | "udpv6_recvmsg" | "__first_packet_length" | "first_packet_length" | "udp_read_skb"
        ),
        _ => false,
    }
}

/// Whether neither its socket nor its namespace is known: it was in a receive queue.
fn is_anonymous(drop: &Drop) -> bool {
    drop.cookie == 0 && drop.namespace == 0
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
