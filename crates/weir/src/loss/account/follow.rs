//! Follows traffic: readings at the start, while it goes on, and at the end, until nothing is undecided.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use weir_kernel::counters::{Running, Width};
use weir_kernel::namespaces::{self, NetNs};
use weir_kernel::sockets::{self, UdpSocket};
use weir_kernel::trace::{Detail, Filter, Trace};

use super::book::{Account, Ledger, Namespace, Sources, VERSION};
use super::evidence::{Evidence, Hardware, NamespaceEvidence, SocketSeen, difference, moved};
use super::receivers::{Between, Followed, ledgers};
use super::session::{ReceivedSession, SentSession};
use super::tracing::{Tracing, name};
use crate::loss::reading::{NamespaceReader, hardware_place};
use crate::loss::subject::Subject;
use crate::service::stop::Stop;

/// What is to be followed, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The traffic.
    pub subject: Subject,
    /// Namespaces by name, process or path, or `all`; empty: the caller's own.
    pub namespaces: Vec<String>,
    /// The most to trace; `None`: nothing.
    pub trace: Option<Detail>,
}

/// What sessions told, at the end.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    /// The sender.
    pub sent: Option<SentSession>,
    /// The receiver.
    pub received: Option<ReceivedSession>,
}

/// Traffic that is being followed.
pub struct Following {
    subject: Subject,
    readers: Vec<NamespaceReader>,
    tracing: Tracing,
    sockets: BTreeMap<(u32, u64), Known>,
    /// Number of the last reading of sockets.
    reading: u64,
    started: SystemTime,
    begun: Instant,
    /// How long the traffic was followed, before the account settled.
    took: Duration,
    start: Arc<Trace>,
    last: Arc<Trace>,
    /// Read just after `start` and `last`: what moved meanwhile may be in the one total and not yet in the other.
    after: [Arc<Trace>; 2],
    warnings: BTreeSet<String>,
}

/// A socket, from when it was first seen.
struct Known {
    inode: u32,
    drops: Running,
    followed: Followed,
}

impl Following {
    /// Attaches everything and takes the first readings.
    ///
    /// # Errors
    /// If a namespace is not there or cannot be entered.
    pub fn start(settings: &Settings) -> Result<Following> {
        let mut warnings = BTreeSet::new();
        if let Some(process) = &settings.subject.process {
            ensure!(process.runs(), "follow {}: there is no such process", settings.subject.in_words());
        }
        let readers = open(&settings.namespaces, &mut warnings)?;
        let ports = settings.subject.known_ports();
        let filter = Filter {
            ports: if settings.subject.ports_are_known() { ports.into_iter().collect() } else { Vec::new() },
            namespaces: readers.iter().map(NamespaceReader::inode).collect(),
        };
        let tracing = Tracing::start(settings.trace, &filter);
        let mut following = Following {
            subject: settings.subject.clone(),
            readers,
            tracing,
            sockets: BTreeMap::new(),
            reading: 0,
            started: SystemTime::now(),
            begun: Instant::now(),
            took: Duration::ZERO,
            start: Arc::default(),
            last: Arc::default(),
            after: <[Arc<Trace>; 2]>::default(),
            warnings,
        };
        following.take_first_readings();
        following.warn_about_process();
        Ok(following)
    }

    /// What is followed, in one line.
    pub fn in_words(&self) -> String {
        let trace = match (self.tracing.detail(), &self.tracing.refused) {
            (Some(detail), None) => format!("trace: {}", name(detail)),
            (Some(detail), Some(refused)) => format!("trace: {} ({refused})", name(detail)),
            (None, None) => "not traced".to_owned(),
            (None, Some(refused)) => format!("not traced: {refused}"),
        };
        let namespaces: Vec<String> = self
            .readers
            .iter()
            .map(|reader| reader.name().map_or_else(|| reader.inode().to_string(), str::to_owned))
            .collect();
        let namespaces = match &namespaces[..] {
            [one] => format!("namespace {one}"),
            several if several.len() <= 4 => format!("namespaces {}", several.join(", ")),
            several => format!("{} namespaces", several.len()),
        };
        format!("{} in {namespaces}; {trace}", self.subject.in_words())
    }

    /// Warnings so far.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.iter().cloned().chain(self.unbound()).collect()
    }

    /// Looks for sockets that came or went until `end` or the stop.
    pub fn watch(&mut self, end: Instant, stop: &Stop, mut each: impl FnMut(&Trace, Duration)) {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || stop.is_set() {
                return;
            }
            let wait = left.min(EACH).as_millis().max(1);
            let timeout = PollTimeout::try_from(wait).unwrap_or(PollTimeout::ZERO);
            let _ = poll(&mut [PollFd::new(stop.as_fd(), PollFlags::POLLIN)], timeout);
            self.look();
            each(&self.last, self.begun.elapsed());
        }
    }

    /// Reads until nothing is undecided, and closes the account.
    pub fn close(mut self, sessions: &Sessions) -> Account {
        let ended = Instant::now();
        let mut same_since = Instant::now();
        let mut before = Vec::new();
        self.took = self.begun.elapsed();
        loop {
            let moving = self.look_quietly();
            let ledgers = self.ledgers(sessions);
            let closed = |ledger: &Ledger| ledger.unexplained.is_none_or(|rest| rest == 0) && ledger.pending == Some(0);
            let undecided = self.readers.iter().any(|reader| reader.incomplete() > 0 || reader.queued() > 0)
                || self.last.reassembling > 0;
            let counts: Vec<_> = ledgers.iter().map(Ledger::counts).collect();
            if before != counts {
                same_since = Instant::now();
            }
            let same = same_since.elapsed();
            let waited = ended.elapsed();
            let settled = moving == 0 && (ledgers.iter().all(closed) || !undecided && same >= SETTLED);
            if settled || moving > 0 && !undecided && waited >= RUNNING || waited >= PATIENCE {
                return self.account(ledgers);
            }
            before = counts;
            thread::sleep(BETWEEN);
        }
    }

    // Readings.

    fn take_first_readings(&mut self) {
        for _ in 0..TRIES {
            let first = self.tracing.read();
            self.read_counters();
            self.sockets.clear();
            self.reading = 0;
            self.look_at_sockets(&first);
            let second = self.tracing.read();
            let moving = moved(&second, &first, &self.subject.known_ports());
            (self.start, self.last, self.after[0]) = (first, second.clone(), second);
            if moving == 0 {
                break;
            }
        }
        self.started = SystemTime::now();
        self.begun = Instant::now();
    }

    /// One look at sockets and trace.
    fn look(&mut self) {
        let trace = self.tracing.read();
        self.look_at_sockets(&trace);
        self.last = trace;
    }

    /// Reads everything, at an instant at which nothing moves if there is one. Returns by how much it moved.
    fn look_quietly(&mut self) -> u64 {
        self.read_counters();
        let ports = self.subject.known_ports();
        let mut moving = 0;
        for _ in 0..TRIES {
            let first = self.tracing.read();
            self.look_at_sockets(&first);
            let second = self.tracing.read();
            moving = moved(&second, &first, &ports);
            (self.last, self.after[1]) = (first, second);
            if moving == 0 {
                break;
            }
        }
        moving
    }

    fn read_counters(&mut self) {
        for reader in &mut self.readers {
            if let Err(error) = reader.read() {
                self.warnings.insert(format!("namespace {}: {error}", reader.inode()));
            }
        }
    }

    fn look_at_sockets(&mut self, trace: &Arc<Trace>) {
        self.reading += 1;
        let first = self.reading == 1;
        let mut unknown = false;
        for reader in &mut self.readers {
            let namespace = reader.inode();
            let sockets = match reader.sockets() {
                Ok(sockets) => sockets,
                Err(error) => {
                    self.warnings.insert(format!("namespace {namespace}: {error}"));
                    continue;
                }
            };
            let between = || Between { before: self.last.clone(), after: trace.clone(), reading: self.reading };
            let mut here = BTreeSet::new();
            for socket in sockets {
                let key = (namespace, socket.cookie.unwrap_or(u64::from(socket.inode)));
                here.insert(key);
                let known = self.sockets.entry(key).or_insert_with(|| {
                    unknown = true;
                    Known::new(&socket, key, if first { None } else { Some(between()) })
                });
                known.update(&socket);
                known.measure(trace);
            }
            let gone = self
                .sockets
                .iter_mut()
                .filter(|(key, known)| key.0 == namespace && !here.contains(key) && known.followed.went.is_none());
            for (_, known) in gone {
                known.followed.went = Some(between());
                known.followed.socket.gone = true;
                known.followed.socket.queued = 0;
            }
        }
        if unknown {
            self.find_owners();
        }
    }

    /// Which processes hold the sockets: as far as they may be looked at.
    fn find_owners(&mut self) {
        let Ok(owners) = sockets::owners() else { return };
        for known in self.sockets.values_mut() {
            let socket = &mut known.followed.socket;
            if socket.process.is_none()
                && let Some(owner) = owners.of(known.inode).first()
            {
                socket.process = Some((owner.pid, owner.name.clone()));
            }
        }
    }

    fn warn_about_process(&mut self) {
        let Some(process) = &self.subject.process else { return };
        let is =
            |known: &Known| known.followed.socket.process.as_ref().is_some_and(|(pid, name)| process.is(*pid, name));
        if !self.sockets.values().any(is) {
            self.warnings.insert(format!("{}: it has no UDP socket so far", self.subject.in_words()));
        }
    }

    /// Ports that were named and that nobody has bound so far.
    fn unbound(&self) -> Vec<String> {
        let bound: BTreeSet<u16> = self.locals().map(|local| local.port()).collect();
        let ports = self.subject.known_ports();
        let unbound = ports.iter().filter(|port| !bound.contains(port));
        unbound.map(|port| format!("port {port}: nobody has bound it in the namespaces followed")).collect()
    }

    fn locals(&self) -> impl Iterator<Item = std::net::SocketAddr> {
        self.sockets.values().filter_map(|known| known.followed.socket.local)
    }

    // The account.

    fn namespace_evidence(&self) -> Vec<NamespaceEvidence> {
        let sockets_of = |inode: u32| self.sockets.keys().filter(|(namespace, _)| *namespace == inode).count();
        let evidence = |reader: &NamespaceReader| {
            let counters = reader.totals();
            let hardware = counters.iter().filter_map(|(counter, count)| {
                Some(Hardware { place: hardware_place(counter)?, counter: counter.clone(), count: *count })
            });
            NamespaceEvidence {
                inode: reader.inode(),
                hardware: hardware.collect(),
                udp_sockets: sockets_of(reader.inode()),
                queued: reader.queued(),
                incomplete: reader.incomplete(),
                counters,
            }
        };
        self.readers.iter().map(evidence).collect()
    }

    /// Ports that are followed, as far as they are known by now.
    fn ports(&self, trace: &Trace) -> BTreeSet<u16> {
        let known = self.subject.known_ports();
        if self.subject.ports_are_known() {
            return known;
        }
        let mut ports: BTreeSet<u16> = known;
        let all = self.sockets.values().map(|known| &known.followed.socket);
        if let Some(process) = &self.subject.process {
            let own: Vec<&SocketSeen> = all
                .filter(|socket| socket.process.as_ref().is_some_and(|(pid, name)| process.is(*pid, name)))
                .collect();
            let departed = trace.departures.iter().filter(|passage| passage.datagrams > 0);
            let departed = departed.filter(|passage| own.iter().any(|socket| socket.cookie == passage.cookie));
            ports.extend(departed.map(|passage| passage.port));
            ports.extend(own.iter().filter_map(|socket| socket.peer).map(|peer| peer.port()));
            ports.extend(
                own.iter().filter(|socket| socket.peer.is_none()).filter_map(|socket| Some(socket.local?.port())),
            );
            return ports;
        }
        if !self.subject.groups.is_empty() {
            let bound = all.clone().filter(|s| s.local.is_some_and(|local| self.subject.groups.contains(&local.ip())));
            ports.extend(bound.filter_map(|socket| Some(socket.local?.port())));
            if !ports.is_empty() {
                return ports;
            }
        }
        ports.extend(trace.drops.iter().filter(|drop| drop.datagrams > 0 && drop.port != 0).map(|drop| drop.port));
        ports.extend(trace.sockets.iter().filter(|s| s.enqueued + s.reads > 0).map(|socket| socket.port));
        ports.extend(trace.arrivals.iter().filter(|passage| passage.datagrams > 0).map(|passage| passage.port));
        ports.extend(all.filter(|socket| socket.drops > 0).filter_map(|socket| Some(socket.local?.port())));
        ports
    }

    /// By how much the totals of a port moved while the first and the last readings were taken.
    fn moving(&self, port: u16) -> u64 {
        let ports = [port].into();
        moved(&self.after[0], &self.start, &ports) + moved(&self.after[1], &self.last, &ports)
    }

    fn ledgers(&self, sessions: &Sessions) -> Vec<Ledger> {
        let trace = difference(&self.last, &self.start);
        let ports = self.ports(&trace);
        let evidence = Evidence {
            detail: self.tracing.detail(),
            moving: 0,
            namespaces: self.namespace_evidence(),
            group: self.subject.groups.first().copied(),
            several_ports: ports.len() > 1 || self.subject.is_everything(),
            partial: None,
            took: self.took,
            sent: None,
            received: None,
            trace,
        };
        let mut all = Vec::new();
        for port in ports {
            let evidence = Evidence {
                moving: self.moving(port),
                sent: sessions.sent.clone().filter(|session| session.port == port),
                received: sessions.received.clone().filter(|session| session.port == port),
                ..evidence.clone()
            };
            let followed = self.followed(&evidence.trace, port);
            let everybody: Vec<SocketSeen> = self.sockets.values().map(|known| known.followed.socket.clone()).collect();
            let mut ledgers = ledgers(
                &evidence,
                port,
                &followed,
                &everybody,
                &|socket| self.is_chosen(socket),
                (&self.start, &self.last),
            );
            ledgers.retain(|ledger| self.is_wanted(ledger));
            all.append(&mut ledgers);
        }
        all
    }

    /// Whether a ledger was asked for: of a port found by the way only with traffic.
    fn is_wanted(&self, ledger: &Ledger) -> bool {
        let moved = ledger.sent.unwrap_or(0) + ledger.arrived.unwrap_or(0) + ledger.received.unwrap_or(0) > 0
            || !ledger.places.is_empty();
        if !moved && !self.subject.known_ports().contains(&ledger.port) {
            return false;
        }
        let Some(receiver) = &ledger.receiver else { return true };
        let process = receiver.pid.zip(receiver.process.as_deref());
        let sends_there = ledger.senders.iter().any(|sender| {
            self.subject
                .process
                .as_ref()
                .zip(sender.pid.zip(sender.process.as_deref()))
                .is_some_and(|(process, (pid, name))| process.is(pid, name))
        });
        sends_there || receiver.address.is_none_or(|local| self.subject.receives(local, process))
    }

    /// Whether a socket is one that was asked for, as far as it is known; of a port whose process only sends, all are.
    fn is_chosen(&self, socket: &SocketSeen) -> bool {
        let Some(local) = socket.local else { return true };
        let is_own = |socket: &SocketSeen| {
            let process = socket.process.as_ref().map(|(pid, name)| (*pid, name.as_str()));
            socket.local.is_none_or(|local| self.subject.receives(local, process))
        };
        let of_port = |known: &&Known| known.followed.socket.local.is_some_and(|other| other.port() == local.port());
        is_own(socket) || !self.sockets.values().filter(of_port).any(|known| is_own(&known.followed.socket))
    }

    /// The receiving sockets of a port: those that were listed, and those that the trace alone saw.
    fn followed(&self, trace: &Trace, port: u16) -> Vec<Followed> {
        let of_port = |known: &&Known| known.followed.socket.local.is_some_and(|local| local.port() == port);
        let mut followed: Vec<Followed> =
            self.sockets.values().filter(of_port).map(|known| known.followed.clone()).collect();
        for socket in trace.sockets.iter().filter(|socket| socket.port == port && socket.enqueued + socket.reads > 0) {
            if !followed.iter().any(|followed| followed.socket.cookie == socket.cookie) {
                followed.push(Followed {
                    socket: SocketSeen::traced(socket.cookie, socket.namespace),
                    came: None,
                    went: None,
                });
            }
        }
        for drop in trace.drops.iter().filter(|drop| drop.port == port && !drop.outgoing && drop.datagrams > 0) {
            if drop.cookie != 0 && !followed.iter().any(|followed| followed.socket.cookie == drop.cookie) {
                followed.push(Followed {
                    socket: SocketSeen::traced(drop.cookie, drop.namespace),
                    came: None,
                    went: None,
                });
            }
        }
        followed.sort_by_key(|followed| followed.socket.cookie);
        followed
    }

    fn account(mut self, ledgers: Vec<Ledger>) -> Account {
        let took = self.begun.elapsed();
        let mut counters: Vec<String> = Vec::new();
        for source in self.readers.iter().flat_map(NamespaceReader::sources) {
            if !counters.iter().any(|known| known == source) {
                counters.push((*source).to_owned());
            }
        }
        for reader in &self.readers {
            for counter in reader.resets() {
                self.warnings.insert(format!(
                    "{counter} of namespace {} began again: its total is a lower bound",
                    reader.inode()
                ));
            }
        }
        self.warnings.extend(self.unbound());
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
                trace: self.tracing.detail().map(|detail| name(detail).to_owned()),
                trace_refused: self.tracing.refused.clone(),
                counters,
            },
            namespaces: self
                .readers
                .iter()
                .map(|reader| Namespace {
                    inode: reader.inode(),
                    name: reader.name().map(str::to_owned),
                    counters: reader.totals(),
                })
                .collect(),
            ledgers,
            warnings: self.warnings.into_iter().collect(),
        }
    }
}

impl Known {
    fn new(socket: &UdpSocket, key: (u32, u64), came: Option<Between>) -> Known {
        // One that came later has dropped nothing before.
        let drops = if came.is_some() { Running::from(0) } else { Running::new() };
        let queued_at_start = if came.is_some() { 0 } else { socket.memory.rmem_alloc };
        Known {
            inode: socket.inode,
            drops,
            followed: Followed {
                socket: SocketSeen {
                    has_cookie: socket.cookie.is_some(),
                    local: Some(socket.local),
                    queued_at_start,
                    gone: false,
                    ..SocketSeen::traced(key.1, key.0)
                },
                came,
                went: None,
            },
        }
    }

    /// Measures what a buffer in its queue takes: the kernel charges more than its bytes.
    fn measure(&mut self, trace: &Trace) {
        let seen = &mut self.followed.socket;
        let traced = trace.sockets.iter().find(|traced| traced.cookie == seen.cookie);
        let waiting = traced.map_or(0, |traced| traced.enqueued.saturating_sub(traced.reads));
        if waiting >= ENOUGH && seen.queued_at_start == 0 && seen.queued > seen.queued_most {
            seen.queued_most = seen.queued;
            seen.truesize = Some((f64::from(seen.queued) / waiting as f64).round() as u32);
        }
    }

    fn update(&mut self, socket: &UdpSocket) {
        let seen = &mut self.followed.socket;
        seen.drops = self.drops.add(socket.memory.drops.into(), Width::Bits32);
        seen.queued = socket.memory.rmem_alloc;
        seen.receive_buffer = socket.memory.receive_buffer;
        (seen.local, seen.peer) = (Some(socket.local), socket.peer);
    }
}

/// Opens the namespaces that were named.
fn open(named: &[String], warnings: &mut BTreeSet<String>) -> Result<Vec<NamespaceReader>> {
    let mut readers: Vec<NamespaceReader> = Vec::new();
    let listed = namespaces::all().unwrap_or_default();
    let name_of =
        |inode: u32| listed.iter().find(|listed| listed.inode == inode).and_then(|listed| listed.name.clone());
    let mut found: Vec<NetNs> = Vec::new();
    if named.is_empty() {
        found.push(NetNs::current()?);
    }
    for text in named {
        if text != "all" {
            found.push(namespaces::find(text)?);
            continue;
        }
        for namespace in &listed {
            match namespace.open() {
                Ok(ns) => found.push(ns),
                Err(error) => {
                    warnings.insert(error.to_string());
                }
            }
        }
    }
    for ns in found {
        let inode = ns.inode()?;
        if readers.iter().any(|reader| reader.inode() == inode) {
            continue;
        }
        match NamespaceReader::open(ns, name_of(inode)) {
            Ok(reader) => readers.push(reader),
            // Of all that there are, one may go while we look.
            Err(error) if named.iter().any(|text| text == "all") => {
                warnings.insert(format!("namespace {inode}: {error}"));
            }
            Err(error) => return Err(error).with_context(|| format!("follow namespace {inode}")),
        }
    }
    Ok(readers)
}

/// Buffers in a queue from which the memory of one is told.
const ENOUGH: u64 = 8;
/// Time between two looks at the sockets.
const EACH: Duration = Duration::from_millis(100);
/// Time between two readings while the account settles.
const BETWEEN: Duration = Duration::from_millis(50);
/// So long nothing has changed, and nothing more is expected.
const SETTLED: Duration = Duration::from_millis(400);
/// So long a flow that goes on is looked at for an instant at which nothing moves.
const RUNNING: Duration = Duration::from_millis(1500);
/// What is not decided by then is pending: the answer is due within 10 s.
const PATIENCE: Duration = Duration::from_millis(8500);
/// Attempts to read at an instant at which nothing moves.
const TRIES: usize = 20;
