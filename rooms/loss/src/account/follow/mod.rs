//! Follows traffic: readings at the start, while it goes on, and at the end, until nothing is undecided.

mod ledgers;
mod names;
mod namespaces;
mod sockets;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, ensure};
use weir_kernel::Error;
use weir_kernel::processors::Activity;
use weir_program::stop::Stop;
use weir_trace::{Detail, Extras, Filter, Trace};

use self::namespaces::Namespace;
use self::sockets::Known;
use super::book::{Account, Ledger};
use super::evidence::moved;
use super::session::{ReceivedSession, SentSession};
use super::tracing::Tracing;
use crate::samples::{self, Capture};
use crate::subject::{Process, TrafficFilter};
use crate::watch::namespaces::Namespaces;
use crate::watch::settings::Where;

/// What is to be followed, and how.
#[derive(Clone, Debug)]
pub struct FollowOptions {
    /// The traffic.
    pub filter: TrafficFilter,
    /// Where.
    pub namespaces: Where,
    /// The most to trace; `None`: nothing.
    pub trace: Option<Detail>,
    /// What to tell beside the counts.
    pub extras: Extras,
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
    filter: TrafficFilter,
    extras: Extras,
    namespaces: Vec<Namespace>,
    tracing: Tracing,
    sockets: BTreeMap<(u32, u64), Known>,
    /// Number of the last reading of sockets.
    reading: u64,
    /// The command that is run, its number and name.
    command: Option<(u32, String)>,
    /// What processors had done when it began.
    activity: Activity,
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

impl Following {
    /// Attaches everything and takes the first readings.
    ///
    /// # Errors
    /// If a namespace is not there or cannot be entered.
    pub fn start(options: &FollowOptions) -> Result<Following> {
        if let Some(process) = &options.filter.process {
            ensure!(process.runs(), "follow {}: there is no such process", options.filter.in_words());
        }
        let opened = Namespaces::open(options.namespaces.clone())?;
        let warnings: BTreeSet<String> = opened.unseen().collect();
        let namespaces: Vec<Namespace> = opened.watched.into_iter().map(Namespace::new).collect();
        let ports = options.filter.known_ports();
        let in_kernel = Filter {
            ports: if options.filter.ports_are_known() { ports.into_iter().collect() } else { Vec::new() },
            namespaces: namespaces.iter().map(|namespace| namespace.inode).collect(),
        };
        let tracing = Tracing::start(options.trace, &in_kernel, &options.extras);
        if options.extras.by_source.is_some() || options.extras.samples > 0 {
            let why = tracing.refused.as_deref().unwrap_or("nothing is traced (--trace off)");
            ensure!(tracing.detail().is_some(), "tell sources or samples: {why}");
        }
        let mut following = Following {
            filter: options.filter.clone(),
            extras: options.extras,
            namespaces,
            tracing,
            sockets: BTreeMap::new(),
            reading: 0,
            command: None,
            activity: Activity::default(),
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
        let not_joined = following.not_joined();
        following.warnings.extend(not_joined);
        Ok(following)
    }

    /// Follows this process's descendants, of which this one is the first.
    pub fn command(&mut self, pid: u32, name: &str) {
        self.command = Some((pid, name.to_owned()));
        if let Some(Process::Command(pids)) = &mut self.filter.process {
            pids.insert(pid);
        }
    }

    /// What is followed, in one line.
    pub fn in_words(&self) -> String {
        let trace = match (self.tracing.detail(), &self.tracing.refused) {
            (Some(detail), None) => format!("trace: {}", detail.name()),
            (Some(detail), Some(refused)) => format!("trace: {} ({refused})", detail.name()),
            (None, None) => "not traced".to_owned(),
            (None, Some(refused)) => format!("not traced: {refused}"),
        };
        let name_of = |namespace: &Namespace| namespace.name.clone().unwrap_or_else(|| namespace.inode.to_string());
        let namespaces: Vec<String> = self.namespaces.iter().map(name_of).collect();
        let namespaces = match &namespaces[..] {
            [one] => format!("namespace {one}"),
            several if several.len() <= 4 => format!("namespaces {}", several.join(", ")),
            several => format!("{} namespaces", several.len()),
        };
        format!("{} in {namespaces}; {trace}", self.filter.in_words())
    }

    /// Warnings so far.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.iter().cloned().chain(self.unbound()).collect()
    }

    /// Looks for sockets that came or went.
    pub fn look(&mut self) {
        self.poll();
    }

    /// Polls for sockets that came or went until `end` or the stop.
    pub fn watch(&mut self, end: Instant, stop: &Stop, mut each: impl FnMut(&Trace, Duration)) {
        loop {
            let now = Instant::now();
            if now >= end || stop.is_set() {
                return;
            }
            stop.wait(end.min(now + EACH));
            self.poll();
            each(&self.last, self.begun.elapsed());
        }
    }

    /// Samples of what was dropped so far, as a capture file.
    ///
    /// # Errors
    /// If the kernel refuses to read them.
    pub fn samples(&mut self) -> Result<Capture, Error> {
        let samples = self.tracing.samples()?;
        Ok(samples::capture(&samples, self))
    }

    /// Reads until nothing is undecided, and closes the account.
    pub fn close(&mut self, sessions: &Sessions) -> Account {
        let ended = Instant::now();
        let mut same = 0;
        let mut before = Vec::new();
        let (ports, mut counted) = (self.filter.known_ports(), Arc::clone(&self.last));
        self.took = self.begun.elapsed();
        loop {
            let moving = self.poll_quietly();
            // What still moves is counted, hence its time; silence while the account settles is nobody's.
            if moved(&self.last, &counted, &ports) > 0 {
                self.took = self.begun.elapsed();
                counted = Arc::clone(&self.last);
            }
            let ledgers = self.ledgers(sessions);
            let closed = |ledger: &Ledger| ledger.unexplained.is_none_or(|rest| rest == 0) && ledger.pending == Some(0);
            let undecided = self.namespaces.iter().any(|namespace| namespace.incomplete > 0 || namespace.queued > 0)
                || self.last.reassembling > 0;
            let counts: Vec<_> = ledgers.iter().map(Ledger::counts).collect();
            // Without a trace nothing tells what moves but the counts.
            let moving = moving > 0 || self.tracing.detail().is_none() && !before.is_empty() && before != counts;
            same = if before == counts { same + 1 } else { 0 };
            let waited = ended.elapsed();
            let settled = !moving && (ledgers.iter().all(closed) || !undecided && same >= SETTLED);
            if settled || moving && !undecided && waited >= RUNNING || waited >= PATIENCE {
                return self.account(ledgers);
            }
            before = counts;
            thread::sleep(BETWEEN);
        }
    }

    // Readings.

    fn take_first_readings(&mut self) {
        at_rest(PATIENCE_AT_REST, || {
            let first = self.tracing.read();
            self.read_counters();
            self.sockets.clear();
            self.reading = 0;
            self.poll_sockets(&first);
            let second = self.tracing.read();
            let moving = moved(&second, &first, &self.filter.known_ports());
            (self.start, self.last, self.after[0]) = (first, second.clone(), second);
            moving
        });
        self.activity = Activity::read().unwrap_or_default();
        self.started = SystemTime::now();
        self.begun = Instant::now();
    }

    /// Reads sockets and trace.
    fn poll(&mut self) {
        let trace = self.tracing.read();
        self.poll_sockets(&trace);
        self.last = trace;
    }

    /// Reads everything, at an instant at which nothing moves if there is one. Returns by how much it moved.
    fn poll_quietly(&mut self) -> u64 {
        self.read_counters();
        let ports = self.filter.known_ports();
        at_rest(PATIENCE_AT_REST, || {
            let first = self.tracing.read();
            self.poll_sockets(&first);
            let second = self.tracing.read();
            let moving = moved(&second, &first, &ports);
            (self.last, self.after[1]) = (first, second);
            moving
        })
    }

    fn read_counters(&mut self) {
        for namespace in &mut self.namespaces {
            if let Err(error) = namespace.read() {
                self.warnings.insert(format!("namespace {}: {error}", namespace.inode));
            }
        }
    }

    fn warn_about_process(&mut self) {
        let Some(process) = self.filter.process.as_ref().filter(|process| !matches!(process, Process::Command(_)))
        else {
            return;
        };
        let is = |known: &Known| known.socket.process.as_ref().is_some_and(|(pid, name)| process.is(*pid, name));
        if !self.sockets.values().any(is) {
            let seen = if nix::unistd::geteuid().is_root() { "" } else { " that you may see (root sees all)" };
            self.warnings.insert(format!("{}: it has no UDP socket{seen} so far", self.filter.in_words()));
        }
    }

    /// Ports that were named and that nobody has bound so far.
    fn unbound(&self) -> Vec<String> {
        let bound: BTreeSet<u16> = self.locals().map(|local| local.port()).collect();
        let ports = self.filter.known_ports();
        let unbound = ports.iter().filter(|port| !bound.contains(port));
        unbound.map(|port| format!("port {port}: nobody has bound it in the namespaces followed")).collect()
    }

    /// Groups that nobody has joined so far, in words.
    fn not_joined(&self) -> Vec<String> {
        if self.filter.groups.is_empty() {
            return Vec::new();
        }
        let joined: BTreeSet<IpAddr> = self.namespaces.iter().flat_map(Namespace::groups).collect();
        let groups = self.filter.groups.iter().filter(|group| !joined.contains(group));
        groups.map(|group| format!("group {group}: nobody has joined it in the namespaces followed")).collect()
    }

    fn locals(&self) -> impl Iterator<Item = std::net::SocketAddr> {
        self.sockets.values().filter_map(|known| known.socket.local)
    }
}

/// Reads until nothing moves meanwhile, some times at most, and not again when `patience` is over: of tens of thousands of
/// ports each reading takes long. Returns how much moved.
fn at_rest(patience: Duration, mut read: impl FnMut() -> u64) -> u64 {
    let begun = Instant::now();
    let mut moving = 0;
    for _ in 0..TRIES {
        moving = read();
        if moving == 0 || begun.elapsed() >= patience {
            break;
        }
    }
    moving
}

/// Time between two polls of the sockets.
pub const EACH: Duration = Duration::from_millis(100);
/// Time between two readings while the account settles.
const BETWEEN: Duration = Duration::from_millis(50);
/// So many readings nothing has changed, and nothing more is expected. Readings, for while the machine stands still nothing
/// can change.
const SETTLED: u32 = 8;
/// So long a flow that goes on is looked at for an instant at which nothing moves.
const RUNNING: Duration = Duration::from_millis(1500);
/// What is not decided by then is pending: the answer is due within 10 s.
const PATIENCE: Duration = Duration::from_millis(8500);
/// Attempts to read at an instant at which nothing moves.
const TRIES: usize = 20;
/// After so long there is no further attempt.
const PATIENCE_AT_REST: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_that_take_long_are_not_taken_many_times() {
        let tries = |patience, still_from: u64| {
            let mut readings = 0;
            let moving = at_rest(patience, || {
                readings += 1;
                u64::from(readings < still_from)
            });
            (readings, moving)
        };
        assert_eq!(tries(Duration::MAX, 3), (3, 0));
        assert_eq!(tries(Duration::MAX, u64::MAX), (TRIES as u64, 1));
        assert_eq!(tries(Duration::ZERO, u64::MAX), (1, 1));
    }
}
