//! A machine that loses datagrams in several places, for tests.

use super::snapshot::*;
use crate::places::Place;

/// The first snapshot, before eBPF is attached.
pub(crate) fn first() -> Snapshot {
    let mut now = totals(0);
    now.sources = Sources { trace: "starting", ..Sources::default() };
    now.drops.clear();
    for socket in &mut now.sockets {
        (socket.received, socket.received_bytes, socket.longest_stall_ms) = (None, None, None);
        socket.places.clear();
    }
    now
}

/// The snapshot after so many seconds, a second after the one before; sorted.
pub(crate) fn at(second: u64) -> Snapshot {
    let mut now = totals(second);
    now.pace(&totals(second - 1));
    now.sort();
    now
}

/// A machine on which everything has this name.
pub(crate) fn named(name: &str) -> Snapshot {
    let mut now = at(60);
    for socket in &mut now.sockets {
        socket.process = Some(name.into());
    }
    now.interfaces.iter_mut().for_each(|interface| name.clone_into(&mut interface.name));
    now.counted.iter_mut().for_each(|counted| counted.counter = format!("{name} rx_missed"));
    now.notes = vec![name.into()];
    now
}

/// The same machine seen without privilege.
pub(crate) fn unprivileged(second: u64) -> Snapshot {
    let mut now = at(second);
    let refused = "load eBPF programs: operation not permitted (needs CAP_BPF and CAP_PERFMON)";
    now.sources = Sources { trace: "off", trace_refused: Some(refused.into()), ..Sources::default() };
    now.drops.clear();
    for socket in &mut now.sockets {
        (socket.received, socket.received_bytes, socket.longest_stall_ms) = (None, None, None);
        socket.places.clear();
        (socket.pid, socket.process) = (None, None);
    }
    now
}

fn totals(second: u64) -> Snapshot {
    let socket = |address: &str, port, process: &str, rate: u64, drops: u64, queue: u64| Socket {
        address: format!("{address}:{port}"),
        port,
        cookie: Some(u64::from(port) + 1),
        namespace: HOST,
        pid: Some(u32::from(port) + 1000),
        process: Some(process.into()),
        received: Some(Count::new(rate * second)),
        received_bytes: Some(Count::new(500 * rate * second)),
        lower_bound: false,
        queue_bytes: queue,
        queue_max_bytes: if drops > 0 { BUFFER } else { queue * 2 },
        buffer_bytes: Some(BUFFER),
        drops: Count::new(drops * second),
        places: (drops > 0)
            .then(|| SocketDrops { place: Place::ReceiveBuffer, datagrams: drops * second })
            .into_iter()
            .collect(),
        longest_stall_ms: Some(if drops > 0 { 41.2 } else { 0.0 }),
    };
    let drops = |port, place, reason: &str, function: &str, rate: u64| Drops {
        namespace: Some(HOST),
        port: Some(port),
        place,
        reason: reason.into(),
        function: function.into(),
        datagrams: Count::new(rate * second),
        rows: 0,
    };
    let counted = |namespace, place, counter: &str, rate: u64| Counted {
        namespace,
        place,
        counter: counter.into(),
        datagrams: Count::new(rate * second),
        before_trace: 0,
        of_card: place == Place::ReceiveRing,
    };
    let time = |share: f64| Time { total_s: share * second as f64, pct: None };
    let processor = |cpu, softirq: f64, user: f64| Processor {
        cpu,
        irq: time(0.02),
        softirq: time(softirq),
        system: time(0.1),
        user: time(user),
        idle: time(0.88 - softirq - user),
        steal: time(0.0),
        net_rx: Some(Count::new((softirq * 10_000.0) as u64 * second)),
    };
    let interface = |name: &str, rate: u64, drops: u64| Interface {
        namespace: HOST,
        name: name.into(),
        received: Count::new(rate * second),
        sent: Count::new(rate * second / 10),
        receive_drops: Count::new(drops * second),
        send_drops: Count::new(0),
    };
    Snapshot {
        version: 1,
        time: "2026-07-01T12:00:00.000Z".into(),
        elapsed_s: second as f64,
        interval_s: None,
        sources: Sources { trace: "queues", ..Sources::default() },
        sockets: vec![
            socket("0.0.0.0", 53, "resolver", 0, 0, 0),
            socket("0.0.0.0", 514, "rsyslogd", 4_000, 0, 21_000),
            socket("192.168.100.100", 5000, "receiver", 12_000, 1_000, 200_000),
            socket("[::]", 8125, "statsd", 300, 0, 832),
        ],
        drops: vec![
            drops(5000, Place::ReceiveBuffer, "SOCKET_RCVBUFF", "udp_queue_rcv_one_skb", 1_000),
            drops(9999, Place::PortClosed, "NO_SOCKET", "__udp4_lib_rcv", 3),
        ],
        counted: vec![
            counted(Some(HOST), Place::ReceiveBuffer, "Udp.RcvbufErrors", 1_000),
            counted(Some(HOST), Place::PortClosed, "Udp.NoPorts", 3),
            counted(Some(HOST), Place::ReceiveRing, "eth0 rx_missed", 12),
            counted(None, Place::Backlog, "softnet.dropped", 0),
        ],
        processors: vec![processor(0, 0.61, 0.05), processor(1, 0.02, 0.3)],
        interrupts: Some(Count::new(23_456 * second)),
        interfaces: vec![interface("lo", 10, 0), interface("eth0", 17_300, 12)],
        namespaces: vec![Namespace { inode: HOST, name: "host".into(), received: Count::new(16_300 * second) }],
        notes: Vec::new(),
    }
}

const HOST: u32 = 4_026_531_840;
const BUFFER: u64 = 212_992;
