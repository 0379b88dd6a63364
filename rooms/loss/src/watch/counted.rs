//! What the kernel's own counters tell of a namespace.

use weir_kernel::counters::{LinkCounters, Qdisc, Width, conntrack, snmp};
use weir_kernel::sockets::UdpSocket;

use super::holders::Holder;
use super::namespaces::Watched;
use super::snapshot::{Count, Counted, Interface, Namespace, Snapshot, Socket};
use super::totals::Totals;
use crate::places::Place;

/// A socket and its memory.
pub(super) fn socket(
    namespace: u32,
    found: &UdpSocket,
    holder: Option<&Holder>,
    totals: &mut Totals,
    is_new: bool,
) -> Socket {
    let address = found.local.to_string();
    let name = |what| format!("{namespace} {what} {address} {:?}", found.cookie);
    let queue = u64::from(found.memory.rmem_alloc);
    Socket {
        port: found.local.port(),
        cookie: found.cookie,
        namespace,
        pid: holder.map(|holder| holder.pid),
        process: holder.map(|holder| holder.name.clone()),
        queue_bytes: queue,
        queue_max_bytes: totals.highest(name("queue"), queue),
        buffer_bytes: found.memory.receive_buffer.map(u64::from),
        drops: Count::new(totals.add(name("drops"), found.memory.drops.into(), Width::Bits32, is_new)),
        address,
        ..Socket::default()
    }
}

/// Interfaces, with their queues.
pub(super) fn interfaces(watched: &mut Watched, totals: &mut Totals, is_new: bool, now: &mut Snapshot) {
    let links = match watched.links.read() {
        Ok(links) => links,
        Err(error) => return now.notes.push(error.to_string()),
    };
    let qdiscs = watched.qdiscs.as_mut().and_then(|qdiscs| qdiscs.read().ok()).unwrap_or_default();
    for link in links {
        interface(watched.inode, &link, &qdiscs, totals, is_new, now);
    }
}

fn interface(
    namespace: u32,
    link: &LinkCounters,
    qdiscs: &[Qdisc],
    totals: &mut Totals,
    is_new: bool,
    now: &mut Snapshot,
) {
    let name = &link.name;
    let mut add = |counter: &str, value: u64, width| {
        totals.add(format!("{namespace} interface {} {name} {counter}", link.index), value, width, is_new)
    };
    let statistics = &link.statistics;
    let mut counted = |place, counter: &str, value| {
        let total = add(counter, value, Width::Bits64);
        let counter = format!("{name} {counter}");
        now.counted.push(Counted {
            namespace: Some(namespace),
            place,
            counter,
            datagrams: Count::new(total),
            before_trace: 0,
        });
        total
    };
    let ring = counted(Place::ReceiveRing, "rx_missed", statistics.rx_missed_errors)
        + counted(Place::ReceiveRing, "rx_over", statistics.rx_over_errors);
    let frames = counted(Place::Frame, "rx_crc", statistics.rx_crc_errors)
        + counted(Place::Frame, "rx_frame", statistics.rx_frame_errors)
        + counted(Place::Frame, "rx_length", statistics.rx_length_errors);
    let carrier = counted(Place::Transmit, "tx_carrier", statistics.tx_carrier_errors);
    // What a veth drops its peer's backlog has dropped, which is counted there.
    let dropped = if link.kind.as_deref() == Some("veth") {
        add("tx_dropped", statistics.tx_dropped, Width::Bits64)
    } else {
        let total = add("tx_dropped", statistics.tx_dropped, Width::Bits64);
        let counter = format!("{name} tx_dropped");
        let datagrams = Count::new(total);
        now.counted.push(Counted {
            namespace: Some(namespace),
            place: Place::Transmit,
            counter,
            datagrams,
            before_trace: 0,
        });
        total
    };
    // Those of a classful parent count what its children drop, too: only the outermost counts.
    let outermost = |qdisc: &&Qdisc| qdisc.interface == link.index && qdisc.parent == Qdisc::ROOT;
    let mut queue = 0;
    for qdisc in qdiscs.iter().filter(outermost) {
        let total = add(&format!("{} {:x}", qdisc.kind, qdisc.handle), qdisc.drops.into(), Width::Bits32);
        let counter = format!("{name} {}", qdisc.kind);
        let datagrams = Count::new(total);
        now.counted.push(Counted {
            namespace: Some(namespace),
            place: Place::Qdisc,
            counter,
            datagrams,
            before_trace: 0,
        });
        queue += total;
    }
    let received = Count::new(add("rx", statistics.rx_packets, Width::Bits64));
    let sent = Count::new(add("tx", statistics.tx_packets, Width::Bits64));
    let rx_dropped = add("rx_dropped", statistics.rx_dropped, Width::Bits64);
    now.interfaces.push(Interface {
        namespace,
        name: name.clone(),
        received,
        sent,
        receive_drops: Count::new(rx_dropped + ring + frames),
        send_drops: Count::new(dropped + carrier + queue),
    });
}

/// What the protocols count.
pub(super) fn protocols(watched: &Watched, totals: &mut Totals, now: &mut Snapshot) {
    let namespace = watched.inode;
    let counters = match snmp(&watched.ns) {
        Ok(counters) => counters,
        Err(error) => return now.notes.push(error.to_string()),
    };
    let mut total = |table: &str, name: &str| {
        let value = counters.get(table, name)?.cast_unsigned();
        Some(totals.add(format!("{namespace} {table}.{name}"), value, Width::Bits64, watched.late))
    };
    for place in Place::all() {
        for (table, name) in place.facts().counters {
            if let Some(total) = total(table, name) {
                let counter = format!("{table}.{name}");
                let datagrams = Count::new(total);
                now.counted.push(Counted { namespace: Some(namespace), place, counter, datagrams, before_trace: 0 });
            }
        }
    }
    let received = ["Udp", "Udp6"].iter().filter_map(|table| total(table, "InDatagrams")).sum();
    now.namespaces.push(Namespace { inode: namespace, name: watched.name.clone(), received: Count::new(received) });
    if let Ok(Some(tracking)) = conntrack(&watched.ns) {
        let name = format!("{namespace} conntrack.drop");
        let datagrams = Count::new(totals.add(name, tracking.drop, Width::Bits32, watched.late));
        let counter = "conntrack.drop".to_owned();
        now.counted.push(Counted {
            namespace: Some(namespace),
            place: Place::Firewall,
            counter,
            datagrams,
            before_trace: 0,
        });
    }
}
