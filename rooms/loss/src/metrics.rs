//! What is watched, as metrics.
//!
//! Sockets come and go, ports are scanned, processes start anew: series are few all the same. A family has a limit;
//! what comes later counts under `other`. Ports that the kernel gives out by itself
//! (`net.ipv4.ip_local_port_range`) count together as `ephemeral`, unless they were asked for.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::ops::RangeInclusive;

use weir_service::metrics::{Family, Kind, Samples};

use crate::places::Place;
use crate::watch::snapshot::{DropsKey, Snapshot, Socket, Sources};

/// Counts by few labels, which never go back while the watch lives.
#[derive(Debug)]
pub struct Books {
    ephemeral: RangeInclusive<u16>,
    asked: Vec<u16>,
    /// Ports that sockets have had.
    bound: HashSet<u16>,
    /// Others that have series: who sends chooses them, so that they are few.
    unbound: HashSet<u16>,
    drops: Counts<DropsKey>,
    counted: Counts<(Option<u32>, Place, String)>,
    socket_drops: Counts<SocketKey>,
    received: Counts<SocketKey>,
    received_bytes: Counts<SocketKey>,
    interfaces: Counts<(u32, String, bool)>,
    /// The latest moment.
    now: Snapshot,
}

type SocketKey = (u32, Option<u64>, String);

impl Books {
    /// Empty books. `ephemeral`: ports that count together, except those that were `asked` for.
    pub fn new(ephemeral: RangeInclusive<u16>, asked: Vec<u16>) -> Self {
        Self {
            ephemeral,
            asked,
            bound: HashSet::new(),
            unbound: HashSet::new(),
            drops: Counts::default(),
            counted: Counts::default(),
            socket_drops: Counts::default(),
            received: Counts::default(),
            received_bytes: Counts::default(),
            interfaces: Counts::default(),
            now: Snapshot::default(),
        }
    }

    /// Enters what has been added since the snapshot before.
    pub fn enter(&mut self, now: &Snapshot) {
        let mut now = now.shown();
        // Whose they were may be found out later.
        let missed = &mut now.sources.trace_missed_namespaces;
        *missed = self.now.sources.trace_missed_namespaces.max(*missed);
        self.bound.extend(now.sockets.iter().map(|socket| socket.port));
        let name_of = |namespace: Option<u32>| namespace.map_or_else(String::new, |inode| now.name_of(inode));
        let mut places: HashMap<DropsKey, (u64, u64)> = HashMap::new();
        for drops in &now.drops {
            let (namespace, port, place, reason, function) = drops.key();
            let total = drops.datagrams.total;
            let (all, by_port) = places.entry((namespace, None, place, reason.clone(), function)).or_default();
            *all += total;
            if let Some(port) = port {
                let soft = [name_of(namespace), self.destination(port)];
                *by_port += self.drops.add(drops.key(), total, soft, [place.name().to_owned(), reason]);
            }
        }
        // What gave way to other ports was counted by its own before.
        for (key, (all, by_port)) in places {
            let (namespace, _, place, reason, _) = key.clone();
            let more = self.drops.grow(key, all).saturating_sub(by_port);
            if more > 0 {
                let fixed = [place.name().to_owned(), reason];
                self.drops.add_more(more, [name_of(namespace), ANY.to_owned()], fixed);
            }
        }
        for counted in &now.counted {
            let namespace = counted.namespace.map_or_else(String::new, |inode| now.name_of(inode));
            let key = (counted.namespace, counted.place, counted.counter.clone());
            let soft = [namespace, counted.counter.clone()];
            self.counted.add(key, counted.datagrams.total, soft, [counted.place.name().to_owned()]);
        }
        for socket in &now.sockets {
            let soft = self.labels(&now, socket);
            let key = || (socket.namespace, socket.cookie, socket.address.clone());
            self.socket_drops.add(key(), socket.drops.total, soft.clone(), []);
            if let Some(received) = socket.received {
                self.received.add(key(), received.total, soft.clone(), []);
            }
            if let Some(received) = socket.received_bytes {
                self.received_bytes.add(key(), received.total, soft, []);
            }
        }
        for interface in &now.interfaces {
            for (incoming, drops) in [(true, interface.receive_drops), (false, interface.send_drops)] {
                let key = (interface.namespace, interface.name.clone(), incoming);
                let soft = [now.name_of(interface.namespace), interface.name.clone()];
                let direction = if incoming { "in" } else { "out" };
                self.interfaces.add(key, drops.total, soft, [direction.to_owned()]);
            }
        }
        self.drops.end();
        self.counted.end();
        self.socket_drops.end();
        self.received.end();
        self.received_bytes.end();
        self.interfaces.end();
        // They are in the books: after a scan of ports these are thousands.
        self.now = Snapshot { drops: Vec::new(), ..now };
    }

    /// Adds every family of [`families`].
    pub fn metrics(&self, samples: &mut Samples<'_>) {
        let now = &self.now;
        samples.family(&DROPS, self.drops.samples());
        samples.family(&COUNTED, self.counted.samples());
        samples.family(&SOCKET_DROPS, self.socket_drops.samples());
        samples.family(&RECEIVED, self.received.samples());
        samples.family(&RECEIVED_BYTES, self.received_bytes.samples());
        for (family, read) in OF_SOCKETS {
            samples.family(family, self.most(read));
        }
        samples.single(&OPEN, now.sockets.len());
        samples.family(&INTERFACES, self.interfaces.samples());
        let mut modes: BTreeMap<&str, f64> = BTreeMap::new();
        for (mode, time) in now.processors.iter().flat_map(|processor| processor.modes()) {
            *modes.entry(mode).or_default() += time.total_s;
        }
        samples.family(&CPU, modes.into_iter().map(|(mode, seconds)| ([mode.to_owned()], seconds)));
        let busiest = now.processors.iter().filter_map(|processor| processor.softirq.pct).reduce(f64::max);
        samples.family(&BUSIEST, busiest.map(|pct| ([], pct / 100.0)));
        samples.family(&INTERRUPTS, now.interrupts.map(|interrupts| ([], interrupts.total)));
        let net_rx = now.processors.iter().filter_map(|processor| processor.net_rx).map(|net_rx| net_rx.total);
        samples.family(&NET_RX, net_rx.reduce(|sum, more| sum + more).map(|total| ([], total)));
        let level = ["off", "drops", "queues", "everything"].iter().position(|&level| level == now.sources.trace);
        samples.single(&TRACE, level.unwrap_or(0));
        let Sources { trace_missed, trace_missed_ports, trace_missed_sockets, trace_missed_namespaces, .. } =
            now.sources;
        let missed = [
            ("events", trace_missed),
            ("namespaces", trace_missed_namespaces),
            ("ports", trace_missed_ports),
            ("sockets", trace_missed_sockets),
        ];
        samples.family(&MISSED, missed.into_iter().map(|(what, count)| ([what.to_owned()], count)));
    }

    /// Of several sockets with the same labels the largest value.
    fn most(&self, read: &fn(&Socket) -> Option<f64>) -> impl Iterator<Item = ([String; 3], f64)> {
        let mut most: BTreeMap<[String; 3], f64> = BTreeMap::new();
        for socket in &self.now.sockets {
            if let Some(value) = read(socket) {
                let mut labels = self.labels(&self.now, socket);
                if most.len() >= MOST_SERIES && !most.contains_key(&labels) {
                    labels = std::array::from_fn(|_| OTHER.to_owned());
                }
                let known = most.entry(labels).or_insert(value);
                *known = known.max(value);
            }
        }
        most.into_iter()
    }

    fn labels(&self, now: &Snapshot, socket: &Socket) -> [String; 3] {
        [now.name_of(socket.namespace), self.port(socket.port), socket.process.clone().unwrap_or_default()]
    }

    /// The port that drops were on their way to.
    fn destination(&mut self, port: u16) -> String {
        if !self.bound.contains(&port) && !self.asked.contains(&port) && !self.ephemeral.contains(&port) {
            if self.unbound.len() >= MOST_UNBOUND && !self.unbound.contains(&port) {
                return OTHER.to_owned();
            }
            self.unbound.insert(port);
        }
        self.port(port)
    }

    fn port(&self, port: u16) -> String {
        let together = self.ephemeral.contains(&port) && !self.asked.contains(&port);
        if together { "ephemeral".to_owned() } else { port.to_string() }
    }
}

/// Series of one family: sums over things that come and go.
#[derive(Debug, Default)]
struct Counts<K> {
    /// Totals of the things that are there, and whether they were there this time.
    last: HashMap<K, (u64, bool)>,
    series: BTreeMap<Vec<String>, u64>,
}

impl<K: Eq + Hash> Counts<K> {
    /// Enters the total of a thing; returns how much has been added to it. Where there are too many series, `soft` labels give way to `other`; the `fixed` ones,
    /// which come after them, have few values.
    fn add<const S: usize, const F: usize>(
        &mut self,
        key: K,
        total: u64,
        soft: [String; S],
        fixed: [String; F],
    ) -> u64 {
        let more = self.grow(key, total);
        self.add_more(more, soft, fixed);
        more
    }

    /// How much has been added to the total of a thing.
    fn grow(&mut self, key: K, total: u64) -> u64 {
        let (before, _) = self.last.insert(key, (total, true)).unwrap_or_default();
        total.saturating_sub(before)
    }

    fn add_more<const S: usize, const F: usize>(&mut self, more: u64, soft: [String; S], fixed: [String; F]) {
        let mut labels: Vec<String> = soft.into_iter().chain(fixed).collect();
        if self.series.len() >= MOST_SERIES && !self.series.contains_key(&labels) {
            labels[..S].fill(OTHER.to_owned());
        }
        *self.series.entry(labels).or_default() += more;
    }

    /// Forgets things that are gone; their counts stay.
    fn end(&mut self) {
        self.last.retain(|_, (_, seen)| std::mem::take(seen));
    }

    fn samples(&self) -> impl Iterator<Item = (&[String], u64)> {
        self.series.iter().map(|(labels, count)| (labels.as_slice(), *count))
    }
}

/// Every family of this module, in the order in which it is exposed.
pub fn families() -> Vec<Family> {
    let of_sockets = OF_SOCKETS.iter().map(|(family, _)| *family);
    let first = [&DROPS, &COUNTED, &SOCKET_DROPS, &RECEIVED, &RECEIVED_BYTES];
    let last = [&OPEN, &INTERFACES, &CPU, &BUSIEST, &INTERRUPTS, &NET_RX, &TRACE, &MISSED];
    first.into_iter().chain(of_sockets).chain(last).copied().collect()
}

/// Series of one family at most, those that count under `other` left out.
const MOST_SERIES: usize = 500;

/// Ports without a socket that have series of their own.
const MOST_UNBOUND: usize = 100;

const OTHER: &str = "other";

/// The port of drops that are told without.
const ANY: &str = "any";

type Read = fn(&Socket) -> Option<f64>;

const OF_SOCKETS: &[(&Family, Read)] = &[
    (
        &gauge_of_sockets(
            "weir_loss_receive_buffer",
            BYTES,
            "Receive buffer as the kernel accounts it, of several sockets the largest; absent: the kernel does not tell.",
        ),
        |socket| Some(socket.buffer_bytes? as f64),
    ),
    (
        &gauge_of_sockets(
            "weir_loss_receive_queue",
            BYTES,
            "What waits in the receive buffer, of several sockets in the fullest.",
        ),
        |socket| Some(socket.queue_bytes as f64),
    ),
    (
        &gauge_of_sockets(
            "weir_loss_receive_queue_max",
            BYTES,
            "The most that waited since the start: of every datagram with eBPF, else of every reading.",
        ),
        |socket| Some(socket.queue_max_bytes as f64),
    ),
    (
        &gauge_of_sockets(
            "weir_loss_longest_stall",
            "seconds",
            "The longest time since the start in which datagrams waited and nobody read; absent without eBPF.",
        ),
        |socket| Some(socket.longest_stall_ms? / 1000.0),
    ),
];

const DROPS: Family = Family::new(
    "weir_loss_drops",
    Some("datagrams"),
    Kind::Counter,
    "Datagrams dropped, by destination port, place (docs/loss.md) and the kernel's reason; none without eBPF.",
)
.by(&["namespace", "port", "place", "reason"]);
const COUNTED: Family = Family::new(
    "weir_loss_counted",
    Some("datagrams"),
    Kind::Counter,
    "What the kernel's own counters say of a place: the same losses again, without ports.",
)
.by(&["namespace", "counter", "place"]);
const SOCKET_DROPS: Family = Family::new(
    "weir_loss_socket_drops",
    Some("datagrams"),
    Kind::Counter,
    "Datagrams that sockets did not take: buffer full, checksum wrong, filtered. Joined datagrams count as one.",
)
.by(OF_SOCKET);
const RECEIVED: Family = Family::new(
    "weir_loss_received",
    Some("datagrams"),
    Kind::Counter,
    "Datagrams that programs read; none without eBPF.",
)
.by(OF_SOCKET);
const RECEIVED_BYTES: Family = Family::new(
    "weir_loss_received",
    Some(BYTES),
    Kind::Counter,
    "Payload bytes that programs read; none without eBPF.",
)
.by(OF_SOCKET);
const OPEN: Family = Family::new("weir_loss_open", Some("sockets"), Kind::Gauge, "UDP sockets that are watched.");
const INTERFACES: Family = Family::new(
    "weir_loss_interface_drops",
    Some("packets"),
    Kind::Counter,
    "Packets that an interface or its queue lost, `in` or `out`.",
)
.by(&["namespace", "interface", "direction"]);
const CPU: Family =
    Family::new("weir_loss_cpu", Some("seconds"), Kind::Counter, "Time of all processors, by what they did.")
        .by(&["mode"]);
const BUSIEST: Family = Family::new(
    "weir_loss_busiest_softirq",
    Some("ratio"),
    Kind::Gauge,
    "Share of its time that the processor busiest with softirq spent there; 1: it can receive no more.",
);
const INTERRUPTS: Family = Family::new(
    "weir_loss_hardware",
    Some("interrupts"),
    Kind::Counter,
    "Hardware interrupts; absent where /proc does not tell.",
);
const NET_RX: Family = Family::new(
    "weir_loss_net_rx",
    Some("softirqs"),
    Kind::Counter,
    "NET_RX softirqs; absent where /proc does not tell.",
);
const TRACE: Family = Family::new(
    "weir_loss_trace",
    Some("level"),
    Kind::Gauge,
    "What eBPF traces: 0 nothing, 1 drops, 2 queues, 3 everything.",
);
const MISSED: Family = Family::new(
    "weir_loss_trace_missed",
    Some("events"),
    Kind::Counter,
    "What eBPF could not count: events, ports or namespaces of dropped datagrams, sockets whose counts gave way. Unless 0, lower bounds.",
)
.by(&["what"]);

const fn gauge_of_sockets(name: &'static str, unit: &'static str, help: &'static str) -> Family {
    Family::new(name, Some(unit), Kind::Gauge, help).by(OF_SOCKET)
}

const OF_SOCKET: &[&str] = &["namespace", "port", "process"];
const BYTES: &str = "bytes";

#[cfg(test)]
mod tests {
    use weir_service::metrics::{Format, expose};

    use super::super::watch::fixture;
    use super::super::watch::snapshot::{Count, Drops};
    use super::*;

    fn books(snapshots: impl IntoIterator<Item = Snapshot>) -> Books {
        let mut books = Books::new(32_768..=60_999, vec![40_000]);
        snapshots.into_iter().for_each(|snapshot| books.enter(&snapshot));
        books
    }

    fn exposed(books: Books) -> String {
        expose(Format::Text, move |samples| books.metrics(samples))
    }

    fn value(text: &str, begins: &str) -> Option<u64> {
        let line = text.lines().find(|line| line.starts_with(begins))?;
        line.rsplit(' ').next().unwrap().parse().ok()
    }

    #[test]
    fn a_machine_that_loses_as_metrics() {
        insta::assert_snapshot!(exposed(books([fixture::at(59), fixture::at(60)])));
    }

    #[test]
    fn every_family_is_exposed_once_and_named_by_the_grammar() {
        let text = exposed(books([fixture::at(60)]));
        let types: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let names: Vec<String> = families().iter().map(Family::full_name).collect();
        assert_eq!(types.iter().map(|line| line.split(' ').next().unwrap()).collect::<Vec<_>>(), names);
        for family in families() {
            let name = family.full_name();
            assert!(name.starts_with("weir_loss_") && family.help.ends_with('.'), "{family:?}");
            assert!(family.kind != Kind::Counter || family.unit.is_some(), "{name}: a count of what?");
        }
    }

    #[test]
    fn what_closes_keeps_its_count_and_what_opens_again_adds_to_it() {
        let begins = "weir_loss_socket_drops_datagrams_total{namespace=\"host\",port=\"5000\",process=\"receiver\"}";
        let before = fixture::at(60);
        let mut without = before.clone();
        without.sockets.clear();
        let mut again = before.clone();
        again.sockets.iter_mut().for_each(|socket| socket.cookie = Some(99));
        again.sockets.iter_mut().for_each(|socket| socket.drops = Count::new(5));
        assert_eq!(value(&exposed(books([before.clone(), without.clone()])), begins), Some(60_000));
        assert_eq!(value(&exposed(books([before, without, again])), begins), Some(60_005));
    }

    #[test]
    fn a_scan_of_all_ports_makes_few_series_and_loses_no_count() {
        let mut now = fixture::at(60);
        let one = now.drops[1].clone();
        now.drops =
            (1..=u16::MAX).map(|port| Drops { port: Some(port), datagrams: Count::new(2), ..one.clone() }).collect();
        let text = exposed(books([now]));
        let samples: Vec<u64> = text
            .lines()
            .filter(|line| line.starts_with("weir_loss_drops_datagrams_total{"))
            .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
            .collect();
        assert!(samples.len() <= MOST_UNBOUND + 10, "{}", samples.len());
        assert_eq!(samples.iter().sum::<u64>(), 2 * u64::from(u16::MAX));
        let other = "weir_loss_drops_datagrams_total{namespace=\"host\",port=\"other\",place=\"port_closed\"";
        assert!(value(&text, other).unwrap() > 0);
    }

    #[test]
    fn after_a_scan_of_all_ports_a_socket_s_drops_have_their_series() {
        let before = fixture::at(60);
        let one = before.drops[1].clone();
        let mut scanned = before.clone();
        scanned.drops =
            (1..=u16::MAX).map(|port| Drops { port: Some(port), datagrams: Count::new(2), ..one.clone() }).collect();
        let mut after = scanned.clone();
        let new = Socket { port: 6000, cookie: Some(77), ..before.sockets[0].clone() };
        after.sockets.push(new);
        after.drops.push(Drops { port: Some(6000), datagrams: Count::new(997), ..before.drops[0].clone() });
        // What gives way to other ports is not lost again.
        after.drops.drain(..10);
        after.drops.push(Drops { port: None, datagrams: Count::new(23), ..one });
        let text = exposed(books([before, scanned, after]));
        let series = |port, place| {
            format!("weir_loss_drops_datagrams_total{{namespace=\"host\",port=\"{port}\",place=\"{place}\"")
        };
        assert_eq!(value(&text, &series("6000", "receive_buffer")), Some(997));
        assert_eq!(value(&text, &series("any", "port_closed")), Some(3));
    }

    #[test]
    fn what_was_once_of_no_known_namespace_stays_counted() {
        let begins = "weir_loss_trace_missed_events_total{what=\"namespaces\"}";
        let missed = |count| {
            let mut now = fixture::at(60);
            now.sources.trace_missed_namespaces = count;
            now
        };
        assert_eq!(value(&exposed(books([missed(9), missed(4)])), begins), Some(9));
        assert_eq!(value(&exposed(books([missed(9), missed(14)])), begins), Some(14));
    }

    #[test]
    fn ports_of_the_kernel_s_choice_count_together_unless_asked_for() {
        let books = books([]);
        assert_eq!(
            [5000, 32_768, 40_000, 61_000].map(|port| books.port(port)),
            ["5000", "ephemeral", "40000", "61000"]
        );
    }
}
