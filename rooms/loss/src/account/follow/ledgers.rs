//! The account of what was followed: which ports and receivers were asked for, and their ledgers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use weir_kernel::processors::Activity;
use weir_trace::{Detail, Trace};

use super::sockets::Known;
use super::{Following, Sessions, namespaces};
use crate::account::book::{Account, Ledger, Namespace, Sources, VERSION};
use crate::account::evidence::{Evidence, NamespaceEvidence, SocketSeen, difference, moved_by_port, of_port};
use crate::account::receivers::ledgers;
use crate::subject::Process;

impl Following {
    fn namespace_evidence(&self) -> Vec<NamespaceEvidence> {
        let sockets_of = |inode: u32| self.sockets.keys().filter(|(namespace, _)| *namespace == inode).count();
        let evidence = |namespace: &namespaces::Namespace| NamespaceEvidence {
            inode: namespace.inode,
            losses: namespace.totals().losses().into_iter().filter(|loss| loss.packets > 0).collect(),
            udp_sockets: sockets_of(namespace.inode),
            queued: namespace.queued,
            incomplete: namespace.incomplete,
            counters: namespace.risen(),
        };
        self.namespaces.iter().map(evidence).collect()
    }

    /// Ports that are followed, as far as they are known by now.
    fn ports(&self, trace: &Trace) -> BTreeSet<u16> {
        let known = self.filter.known_ports();
        if self.filter.ports_are_known() {
            return known;
        }
        let mut ports: BTreeSet<u16> = known;
        let all = self.sockets.values().map(|known| &known.socket);
        if let Some(process) = &self.filter.process {
            let own: Vec<&SocketSeen> = all
                .filter(|socket| socket.process.as_ref().is_some_and(|(pid, name)| process.is(*pid, name)))
                .collect();
            let used = |cookie: u64| trace.used_by_descendants.contains(&cookie);
            let cookies: BTreeSet<u64> = own.iter().map(|socket| socket.cookie).collect();
            let is_own = |cookie: u64| used(cookie) || cookies.contains(&cookie);
            let departed = trace.departures.iter().filter(|passage| passage.datagrams > 0);
            ports.extend(departed.filter(|passage| is_own(passage.cookie)).map(|passage| passage.port));
            let sends = trace.sends.iter().filter(|sends| sends.port != 0 && used(sends.cookie));
            ports.extend(sends.map(|sends| sends.port));
            let read = trace.sockets.iter().filter(|socket| socket.enqueued + socket.reads > 0 && used(socket.cookie));
            ports.extend(read.map(|socket| socket.port));
            ports.extend(own.iter().filter_map(|socket| socket.peer).map(|peer| peer.port()));
            ports.extend(
                own.iter().filter(|socket| socket.peer.is_none()).filter_map(|socket| Some(socket.local?.port())),
            );
            return ports;
        }
        if !self.filter.groups.is_empty() {
            let bound = all.clone().filter(|s| s.local.is_some_and(|local| self.filter.groups.contains(&local.ip())));
            ports.extend(bound.filter_map(|socket| Some(socket.local?.port())));
            if !ports.is_empty() {
                return ports;
            }
        }
        let queues = self.tracing.detail() >= Some(Detail::Queues);
        let lost = trace.drops.iter().filter(|drop| drop.datagrams > 0 && drop.port != 0);
        let lost = lost.filter(|drop| drop.namespace != 0 || !queues);
        ports.extend(lost.map(|drop| drop.port));
        ports.extend(trace.sockets.iter().filter(|s| s.enqueued + s.reads > 0).map(|socket| socket.port));
        ports.extend(trace.arrivals.iter().filter(|passage| passage.datagrams > 0).map(|passage| passage.port));
        let dropping = all.clone().filter(|socket| socket.drops > 0);
        ports.extend(dropping.filter_map(|socket| Some(socket.local?.port())));
        if !self.filter.groups.is_empty() {
            // Only a socket that is bound to no address of the host takes a group.
            let open: BTreeSet<u16> =
                all.filter_map(|s| s.local).filter(|l| self.filter.receives(*l, None)).map(|l| l.port()).collect();
            ports.retain(|port| open.contains(port));
        }
        ports
    }

    /// The ports that get a ledger, and how many do not: where ports were not named, those with the most datagrams.
    fn chosen_ports(&self, trace: &Trace) -> (BTreeSet<u16>, usize) {
        let ports = self.ports(trace);
        let left_out = ports.len().saturating_sub(MOST_PORTS);
        if left_out == 0 || self.filter.ports_are_known() {
            return (ports, 0);
        }
        let mut datagrams: BTreeMap<u16, u64> = ports.into_iter().map(|port| (port, 0)).collect();
        let drops = trace.drops.iter().map(|drop| (drop.port, drop.datagrams));
        let passages = trace.arrivals.iter().chain(&trace.departures).map(|passage| (passage.port, passage.datagrams));
        let sockets = trace.sockets.iter().map(|socket| (socket.port, socket.enqueued + socket.reads));
        for (port, count) in drops.chain(passages).chain(sockets) {
            datagrams.entry(port).and_modify(|sum| *sum += count);
        }
        let mut ports: Vec<(u16, u64)> = datagrams.into_iter().collect();
        ports.sort_by_key(|&(_, count)| Reverse(count));
        (ports.into_iter().take(MOST_PORTS).map(|(port, _)| port).collect(), left_out)
    }

    /// By how much the totals of each port moved while the first and the last readings were taken.
    fn moving(&self) -> impl Fn(u16) -> u64 {
        let readings = [moved_by_port(&self.after[0], &self.start), moved_by_port(&self.after[1], &self.last)];
        move |port| readings.iter().filter_map(|moved| moved.get(&port)).sum()
    }

    /// Time in softirq of the processor that spent most there: a processor's whole ticks (proc_stat(5)).
    fn busiest_softirq(&self) -> Duration {
        let since = Activity::read().unwrap_or_default().since(&self.activity);
        since.processors.iter().map(|processor| processor.time.softirq).max().unwrap_or_default()
    }

    pub(super) fn ledgers(&self, sessions: &Sessions) -> Vec<Ledger> {
        let trace = difference(&self.last, &self.start);
        let (ports, left_out) = self.chosen_ports(&trace);
        let evidence = Evidence {
            detail: self.tracing.detail(),
            by_source: self.extras.by_source,
            namespaces: self.namespace_evidence(),
            group: self.filter.groups.first().copied(),
            several_ports: ports.len() + left_out > 1 || self.filter.is_everything(),
            took: self.took,
            busiest_softirq: self.busiest_softirq(),
            // Each port has its own.
            ..Evidence::default()
        };
        let known = self.sockets.values().map(|known| known.socket.clone());
        let everybody: Vec<SocketSeen> = known.chain(self.gone_senders(&trace)).collect();
        let moving = self.moving();
        let mut all = Vec::new();
        for port in ports {
            let sockets = self.sockets_of(&trace, port);
            let cookies = sockets.iter().map(|socket| socket.cookie).collect();
            let evidence = Evidence {
                port,
                sockets,
                trace: of_port(&trace, port, &cookies),
                moving: moving(port),
                sent: sessions.sent.clone().filter(|session| session.port == port),
                received: sessions.received.clone().filter(|session| session.port == port),
                ..evidence.clone()
            };
            let mut ledgers = ledgers(&evidence, &everybody);
            #[cfg(debug_assertions)]
            evidence.record(&everybody, &ledgers);
            ledgers.retain(|ledger| self.is_wanted(ledger));
            all.append(&mut ledgers);
        }
        all
    }

    /// Sockets that the command sent from and closed before anybody listed them.
    fn gone_senders(&self, trace: &Trace) -> Vec<SocketSeen> {
        let listed: BTreeSet<u64> = self.sockets.keys().map(|(_, cookie)| *cookie).collect();
        let gone = trace.sends.iter().filter(|sends| !listed.contains(&sends.cookie));
        let gone: BTreeMap<u64, u32> = gone.map(|sends| (sends.cookie, sends.namespace)).collect();
        gone.into_iter().map(|(cookie, namespace)| self.traced(trace, cookie, namespace)).collect()
    }

    /// A socket that the trace alone saw.
    fn traced(&self, trace: &Trace, cookie: u64, namespace: u32) -> SocketSeen {
        let process = self.command.clone().filter(|_| trace.used_by_descendants.contains(&cookie));
        SocketSeen { by_descent: process.is_some(), process, ..SocketSeen::traced(cookie, namespace) }
    }

    /// Whether a ledger was asked for: of a port found by the way only with traffic.
    fn is_wanted(&self, ledger: &Ledger) -> bool {
        let moved = ledger.sent.unwrap_or(0) + ledger.arrived.unwrap_or(0) + ledger.received.unwrap_or(0) > 0
            || !ledger.places.is_empty();
        if !moved && !self.filter.known_ports().contains(&ledger.port) {
            return false;
        }
        let Some(receiver) = &ledger.receiver else { return true };
        let process = receiver.pid.zip(receiver.process.as_deref());
        let sends_there = ledger.senders.iter().any(|sender| {
            self.filter
                .process
                .as_ref()
                .zip(sender.pid.zip(sender.process.as_deref()))
                .is_some_and(|(process, (pid, name))| process.is(pid, name))
        });
        sends_there || receiver.address.is_none_or(|local| self.filter.receives(local, process))
    }

    /// Whether a socket is one that was asked for, as far as it is known; of a port whose process only sends, all are.
    fn is_chosen(&self, socket: &SocketSeen) -> bool {
        let Some(local) = socket.local else { return true };
        let is_own = |socket: &SocketSeen| {
            let process = socket.process.as_ref().map(|(pid, name)| (*pid, name.as_str()));
            socket.local.is_none_or(|local| self.filter.receives(local, process))
        };
        let of_port = |known: &&Known| known.socket.local.is_some_and(|other| other.port() == local.port());
        is_own(socket) || !self.sockets.values().filter(of_port).any(|known| is_own(&known.socket))
    }

    /// The receiving sockets of a port: those that were listed, and those that the trace alone saw.
    fn sockets_of(&self, trace: &Trace, port: u16) -> Vec<SocketSeen> {
        let listed = self.sockets.values().map(|known| &known.socket);
        let listed = listed.filter(|socket| socket.local.is_some_and(|local| local.port() == port));
        let mut sockets: Vec<SocketSeen> =
            listed.map(|socket| SocketSeen { chosen: self.is_chosen(socket), ..socket.clone() }).collect();
        let took = trace.sockets.iter().filter(|socket| socket.port == port && socket.enqueued + socket.reads > 0);
        let took = took.map(|socket| (socket.cookie, socket.namespace));
        let dropped = trace.drops.iter().filter(|drop| drop.port == port && !drop.outgoing && drop.datagrams > 0);
        let dropped = dropped.filter(|drop| drop.cookie != 0).map(|drop| (drop.cookie, drop.namespace));
        for (cookie, namespace) in took.chain(dropped) {
            if !sockets.iter().any(|socket| socket.cookie == cookie) {
                sockets.push(self.traced(trace, cookie, namespace));
            }
        }
        sockets.sort_by_key(|socket| socket.cookie);
        sockets
    }

    pub(super) fn account(&mut self, ledgers: Vec<Ledger>) -> Account {
        let took = self.begun.elapsed();
        let mut counters: Vec<String> = Vec::new();
        for source in self.namespaces.iter().flat_map(|namespace| &namespace.sources) {
            if !counters.iter().any(|known| known == source) {
                counters.push((*source).to_owned());
            }
        }
        for namespace in &self.namespaces {
            for counter in namespace.resets() {
                self.warnings.insert(format!(
                    "{counter} of namespace {} began again: its total is a lower bound",
                    namespace.inode
                ));
            }
        }
        let unbound = self.unbound();
        self.warnings.extend(unbound);
        let missed = self.last.missed.since(&self.start.missed).total();
        if missed > 0 {
            self.warnings.insert(format!("{missed} events that the trace missed: its totals are lower bounds"));
        }
        let (_, left_out) = self.chosen_ports(&difference(&self.last, &self.start));
        if left_out > 0 {
            self.warnings.insert(format!(
                "{left_out} ports with fewer datagrams have no ledger: name those that matter (--port P)"
            ));
        }
        if ledgers.is_empty() && matches!(self.filter.process, Some(Process::Command(_))) {
            self.warnings.insert("the command was not seen to send or receive UDP".to_owned());
        }
        for ledger in &ledgers {
            let moved = ledger.sent.unwrap_or(0) + ledger.arrived.unwrap_or(0) + ledger.received.unwrap_or(0);
            if moved == 0 && ledger.places.is_empty() && self.tracing.detail() == Some(Detail::Everything) {
                self.warnings.insert(format!("port {}: no datagram was seen", ledger.port));
            }
        }
        Account {
            version: VERSION,
            started: humantime::format_rfc3339_millis(self.started).to_string(),
            took_s: (took.as_secs_f64() * 1000.0).round() / 1000.0,
            sources: Sources {
                trace: self.tracing.detail().map(|detail| detail.name().to_owned()),
                trace_refused: self.tracing.refused.clone(),
                counters,
            },
            namespaces: self
                .namespaces
                .iter()
                .map(|namespace| Namespace {
                    inode: namespace.inode,
                    name: namespace.name.clone(),
                    counters: namespace.risen(),
                })
                .collect(),
            ledgers,
            warnings: self.warnings.iter().cloned().collect(),
        }
    }
}

/// Ports that get a ledger where none were named: more than anybody reads.
const MOST_PORTS: usize = 100;
