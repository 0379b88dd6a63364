//! Reads the machine: counters of the kernel, and what eBPF counted, into snapshots.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant, SystemTime};

use weir_kernel::Error;
use weir_kernel::counters::Width;
use weir_kernel::processors::{Activity, Times};
use weir_trace::Missed;

use super::attach::Attached;
use super::counted;
use super::holders::Holders;
use super::namespaces::Namespaces;
use super::settings::{WatchOptions, Where};
use super::snapshot::{Count, CountedKey, Processor, Snapshot, Socket, Sources, Time};
use super::totals::Totals;
use super::traced::{self, Ports, Traced};
use crate::subject::Process;

/// Everything that is read, and how far it had come.
pub(super) struct Machine {
    settings: WatchOptions,
    began: Instant,
    namespaces: Namespaces,
    followed: Instant,
    /// What has gone since, in words.
    gone: Vec<String>,
    totals: Totals,
    holders: Holders,
    ports: Ports,
    /// What counters had counted before eBPF was attached.
    untraced: HashMap<CountedKey, u64>,
    /// The processors at the first reading.
    first: Option<Activity>,
    before: Option<Snapshot>,
}

impl Machine {
    /// Opens what is to be read.
    ///
    /// # Errors
    /// If a namespace that was asked for is not there or may not be entered.
    pub(super) fn open(settings: WatchOptions) -> Result<Self, Error> {
        let namespaces = Namespaces::open(settings.namespaces.clone())?;
        let now = Instant::now();
        Ok(Self {
            settings,
            began: now,
            namespaces,
            followed: now,
            gone: Vec::new(),
            totals: Totals::default(),
            holders: Holders::default(),
            ports: Ports::default(),
            untraced: HashMap::new(),
            first: None,
            before: None,
        })
    }

    /// Inode numbers of the namespaces that are watched now.
    pub(super) fn inodes(&self) -> Vec<u32> {
        self.namespaces.watched.iter().map(|watched| watched.inode).collect()
    }

    /// Everything now, with its rates. What cannot be read is left out, and said.
    pub(super) fn read(&mut self, attached: &mut Attached) -> Snapshot {
        if self.followed.elapsed() >= FOLLOWED_EACH {
            self.followed = Instant::now();
            self.gone
                .extend(self.namespaces.follow().into_iter().map(|name| format!("network namespace {name} is gone")));
        }
        let mut now = Snapshot {
            version: 1,
            time: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            elapsed_s: self.began.elapsed().as_secs_f64(),
            notes: self.gone.iter().cloned().chain(self.namespaces.unseen()).collect(),
            ..Snapshot::default()
        };
        let trace = attached.read(&mut now.notes);
        // Arrivals and calls that send are not shown.
        let missed = trace.as_ref().map_or_else(Missed::default, |trace| trace.missed);
        now.sources = Sources {
            trace: attached.level(),
            trace_refused: attached.refused(),
            trace_missed: missed.drops + missed.queues,
            trace_missed_ports: missed.ports,
            trace_missed_sockets: missed.sockets,
            trace_missed_namespaces: 0,
        };
        self.totals.begin();
        let is_first = self.before.is_none();
        let (mut sockets, mut all_are_told) = (Vec::new(), true);
        for watched in &mut self.namespaces.watched {
            // What was not there in the first reading was made since, and its counters began at 0.
            let is_new = !is_first || watched.late;
            match watched.sockets.read() {
                Ok(found) => sockets.extend(found.into_iter().map(|socket| (watched.inode, socket))),
                Err(error) => {
                    all_are_told = false;
                    now.notes.push(error.to_string());
                }
            }
            counted::namespace(watched, is_new, &mut now);
        }
        let open: HashSet<u64> = sockets.iter().filter_map(|(_, socket)| socket.cookie).collect();
        all_are_told &= sockets.iter().all(|(_, socket)| socket.cookie.is_some());
        self.holders.learn(sockets.iter().map(|(_, socket)| socket.inode));
        for (namespace, found) in sockets {
            let holders = self.holders.of(found.inode);
            let port = found.local.port();
            self.ports.saw(port, namespace);
            let wanted = self.settings.ports.is_empty() || self.settings.ports.contains(&port);
            let meant = |process: &Process| holders.iter().any(|one| process.is(one.pid, &one.name));
            if wanted && self.settings.process.as_ref().is_none_or(meant) {
                now.sockets.push(counted::socket(namespace, &found, holders.first(), &mut self.totals, !is_first));
            }
        }
        // Who asked for a process may have asked for one of these.
        let asked = self.settings.process.is_some();
        if self.holders.some_hidden && (asked || now.sockets.iter().any(|socket| socket.pid.is_none())) {
            now.notes.push("processes of others are hidden (needs CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH)".into());
        }
        self.read_machine(&mut now);
        if let Some(trace) = &trace {
            let strangers = self.settings.namespaces == Where::All;
            Traced { trace, ports: &self.ports, has_queues: attached.has_queues() }.add(&mut now, strangers);
            // Who is closed is known by cookies alone.
            if let Err(error) = attached.remove_closed(|cookie| !all_are_told || open.contains(&cookie)) {
                now.notes.push(error.to_string());
            }
            // The trace is read before the counters: what is lost between the two looks as if it had come before eBPF, until
            // a reading in which nothing is.
            let beyond = traced::untraced(&now.drops, &now.counted);
            for (counted, beyond) in now.counted.iter_mut().zip(beyond) {
                let least = self.untraced.entry(counted.key()).or_insert(beyond);
                *least = beyond.min(*least);
                counted.before_trace = *least;
            }
        }
        self.choose(&mut now);
        if let Some(before) = &self.before {
            now.pace(before);
        }
        now.sort();
        self.before = Some(now.clone());
        now
    }

    /// Leaves out what was not asked for, and says what was and is not there.
    fn choose(&self, now: &mut Snapshot) {
        let has_port = |sockets: &[Socket], port| sockets.iter().any(|socket| socket.port == port);
        if let Some(process) = &self.settings.process {
            let sockets = &now.sockets;
            let ports: HashSet<u16> = sockets.iter().map(|socket| socket.port).collect();
            now.drops.retain(|drops| drops.port.is_some_and(|port| ports.contains(&port)));
            if sockets.is_empty() {
                now.notes.push(format!("process {process}: no UDP socket of it (has it ended? is it another user's?)"));
            }
        }
        for &port in &self.settings.ports {
            if !has_port(&now.sockets, port) {
                now.notes.push(format!("port {port}: nobody has bound it"));
            }
        }
    }

    /// What belongs to no namespace.
    fn read_machine(&mut self, now: &mut Snapshot) {
        counted::machine(&mut self.totals, now);
        match Activity::read() {
            Ok(activity) => self.add_activity(now, &activity),
            Err(error) => now.notes.push(error.to_string()),
        }
    }

    fn add_activity(&mut self, now: &mut Snapshot, activity: &Activity) {
        now.interrupts =
            Some(Count::new(self.totals.add("interrupts".into(), activity.interrupts, Width::Bits64, false)));
        let first = self.first.get_or_insert_with(|| activity.clone());
        let net_rx = activity.softirqs.iter().find(|line| line.name == "NET_RX");
        for processor in &activity.processors {
            let cpu = processor.cpu;
            let before = first.processors.iter().find(|before| before.cpu == cpu).map(|before| before.time);
            let before = before.unwrap_or(processor.time);
            let since = |read: fn(&Times) -> Duration| Time {
                total_s: read(&processor.time).saturating_sub(read(&before)).as_secs_f64(),
                pct: None,
            };
            let count = net_rx.and_then(|line| line.counts.iter().find(|(number, _)| *number == cpu));
            let net_rx = count.map(|(_, count)| self.totals.add(format!("net_rx {cpu}"), *count, Width::Bits32, false));
            now.processors.push(Processor {
                cpu,
                irq: since(|time| time.irq),
                softirq: since(|time| time.softirq),
                system: since(|time| time.system),
                user: since(|time| time.user),
                idle: since(|time| time.idle),
                steal: since(|time| time.steal),
                net_rx: net_rx.map(Count::new),
            });
        }
    }
}

/// How often it is looked for namespaces that came or went.
const FOLLOWED_EACH: Duration = Duration::from_secs(5);
