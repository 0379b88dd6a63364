//! What was sent, which calls failed, and where the ledger begins.

use std::collections::HashMap;

use nix::errno::Errno;
use weir_trace::Detail;

use super::LedgerBuilder;
use crate::account::book::Sender;
use crate::account::evidence::{NamespaceEvidence, SocketSeen};
use crate::account::senders::SendingSocket;
use crate::account::tally::Tally;
use crate::places::Place;

impl LedgerBuilder<'_> {
    /// Datagrams that were tried to be sent; `None`: nobody was seen sending.
    pub(super) fn sent(&mut self) -> Option<u64> {
        if let Some(why) = self.share.partial {
            self.unknown.push(format!("what was sent to it: {why}"));
            return None;
        }
        let tried: u64 = self.senders.iter().map(SendingSocket::tried).sum();
        let traced = (!self.senders.is_empty()).then_some(tried);
        for (errno, calls) in std::mem::take(&mut self.failed_beside) {
            let errno = Errno::from_raw(errno);
            let (place, errno) = (Place::of_failed_call(errno), format!("{errno:?}"));
            let (title, remedy) = (place.row().title, place.remedy(&errno, ""));
            self.unknown.push(format!(
                "where {calls} failed calls would have gone ({errno}, {title}): their sockets are not connected: {remedy}"
            ));
        }
        let announced = self.evidence.received.as_ref().and_then(|session| session.announced);
        let session = self.evidence.sent.as_ref().map(|session| session.sent + session.failed);
        let sent = self.believe_session("sent", traced, session).or(announced);
        if sent.is_none() {
            let is_traced = self.evidence.detail == Some(Detail::Everything);
            self.unknown.push(if is_traced { BEFORE_THIS_HOST } else { SENT }.to_owned());
        }
        sent
    }

    /// What was sent and where the ledger begins.
    pub(super) fn choose_base(&mut self, sent: Option<u64>, arrived: Option<u64>) -> (Option<u64>, Option<u64>) {
        let Some(known) = sent else { return (None, arrived) };
        let before = self.places.total().saturating_sub(self.dropped_after_arrival());
        // A receiver's word for it (`announced`) is a lower bound, as what was seen of the senders is.
        let session = self.evidence.sent.is_some();
        match arrived {
            Some(arrived) if !session && arrived + before > known + self.evidence.moving => {
                let more = arrived + before - known;
                self.unknown.push(format!(
                    "what was sent: {more} more came than were sent in the namespaces followed, so there is another sender (or a \
                     copy on the way, or an announcement that was not heard)"
                ));
                self.places = Tally::default();
                self.add_drops(false);
                self.correct_by_socket();
                (None, Some(arrived))
            }
            _ => (sent, sent),
        }
    }

    /// Calls that failed are losses of their own, except those that tell of a drop which the trace has already.
    pub(super) fn add_failed_calls(&mut self) {
        let mut unreachable_reports = self.icmp_reports();
        let dropped = self.dropped_by_sender();
        let mut buffers =
            self.places.at(Place::Qdisc) + self.places.at(Place::Backlog) + self.places.at(Place::Transmit);
        for sender in self.senders.clone() {
            for (&number, &calls) in &sender.failed {
                let errno = Errno::from_raw(number);
                let name = format!("{errno:?}");
                if errno == Errno::EHOSTUNREACH {
                    // With an entry `unreachable` in the routes, or told by a router of an earlier datagram.
                    let reports = calls.min(unreachable_reports);
                    unreachable_reports -= reports;
                    for (place, calls) in [(Place::SendError, reports), (Place::NoRoute, calls - reports)] {
                        self.places.add(place, calls, "send calls", &name, "", Some(sender.namespace));
                    }
                    continue;
                }
                let place = Place::of_failed_call(errno);
                let dropped = dropped.get(&sender.cookie);
                let known = match place {
                    Place::FirewallOut => dropped.map_or(0, |dropped| dropped.refused),
                    Place::SendError if errno == Errno::EMSGSIZE => dropped.map_or(0, |dropped| dropped.too_big),
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

    /// What was dropped on its way out of each sender that has a drop of the port.
    fn dropped_by_sender(&self) -> HashMap<u64, DroppedOut> {
        let port = self.evidence.port;
        let mut senders: HashMap<u64, DroppedOut> = HashMap::new();
        for drop in self.evidence.trace.drops.iter().filter(|drop| drop.outgoing && drop.port == port) {
            let of = senders.entry(drop.cookie).or_default();
            if Place::of_drop(&drop.reason, &drop.function, true) == Place::FirewallOut {
                of.refused += drop.datagrams;
            }
            if drop.reason == "PKT_TOO_BIG" {
                of.too_big += drop.datagrams;
            }
        }
        senders
    }

    /// Messages "destination unreachable" that the senders' namespaces got.
    fn icmp_reports(&self) -> u64 {
        let of = |ns: &NamespaceEvidence| ns.counter("Icmp.InDestUnreachs") + ns.counter("Icmp6.InDestUnreachs");
        self.evidence.namespaces.iter().filter(|ns| self.sender_namespaces.contains(&ns.inode)).map(of).sum()
    }

    pub(super) fn tell_senders(&self, everybody: &[SocketSeen]) -> Vec<Sender> {
        let mut seen: HashMap<u64, &SocketSeen> = HashMap::new();
        for socket in everybody {
            seen.entry(socket.cookie).or_insert(socket);
        }
        self.senders
            .iter()
            .map(|sender| {
                let socket = seen.get(&sender.cookie);
                let (pid, process) = socket.and_then(|socket| socket.process.clone()).unzip();
                Sender {
                    cookie: sender.cookie,
                    namespace: sender.namespace,
                    pid,
                    process,
                    by_descent: socket.is_some_and(|socket| socket.by_descent),
                    sent: sender.tried(),
                }
            })
            .collect()
    }
}

/// Answered by the account of the sender's host.
pub(in crate::account) const BEFORE_THIS_HOST: &str = "before this host: nobody was seen sending here";

const SENT: &str = "what was sent: only a full trace or a session tells (--sent FILE)";

/// Datagrams of one sender that were dropped on their way out, where its calls tell of it, too.
#[derive(Default)]
struct DroppedOut {
    /// By a firewall.
    refused: u64,
    /// As they exceeded what the way takes.
    too_big: u64,
}
