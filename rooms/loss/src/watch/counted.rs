//! What the kernel's own counters tell of a namespace.

use weir_kernel::Error;
use weir_kernel::counters::{Counter, Width};
use weir_kernel::sockets::UdpSocket;

use super::holders::Holder;
use super::namespaces::Watched;
use super::snapshot::{Count, Counted, Interface, Namespace, Snapshot, Socket};
use super::totals::Totals;
use crate::places::{Place, Stage};
use crate::reading::{self, Id};

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

/// Interfaces, and what the counters of a namespace tell of losses.
pub(super) fn namespace(watched: &mut Watched, is_new: bool, now: &mut Snapshot) {
    let reading = watched.reader.read(&watched.ns);
    now.notes.extend(reading.failed.iter().map(Error::to_string));
    let Watched { inode, late, totals, .. } = watched;
    let inode = *inode;
    totals.begin();
    let add_own = |(id, value): (Id, u64)| {
        let is_new = if id.counter.is_of_interface() { is_new } else { *late };
        let total = add(totals, Some(inode), &id, value, is_new);
        (id, total)
    };
    let counted: reading::Totals = reading.values.into_iter().map(add_own).collect();
    let losses = counted.losses();
    for link in &reading.links {
        let name = |what| format!("{inode} interface {} {} {what}", link.index, link.name);
        let mut packets = |what, value| Count::new(totals.add(name(what), value, Width::Bits64, is_new));
        let (received, sent) = (packets("rx", link.statistics.rx_packets), packets("tx", link.statistics.tx_packets));
        let lost = |stage: Stage, place: Option<Place>| {
            let own = losses.iter().filter(|loss| loss.interface == link.index && loss.place.stage() == stage);
            own.filter(|loss| place.is_none_or(|place| loss.place == place)).map(|loss| loss.packets).sum::<u64>()
        };
        // Some drivers count in rx_dropped what found the ring full, too.
        let ring = lost(Stage::Arriving, Some(Place::ReceiveRing));
        let beside_ring = lost(Stage::Arriving, None) - ring;
        let receive_drops = counted.of(Counter::RxDropped, link.index).max(ring) + beside_ring;
        let send_drops = lost(Stage::Departed, None) + counted.of(Counter::TxDroppedVeth, link.index);
        now.interfaces.push(Interface {
            namespace: inode,
            name: link.name.clone(),
            received,
            sent,
            receive_drops: Count::new(receive_drops),
            send_drops: Count::new(send_drops),
        });
    }
    now.counted.extend(losses.into_iter().map(|loss| Counted::new(Some(inode), loss)));
    let received = ["Udp", "Udp6"].into_iter().filter_map(|table| {
        let value = reading.snmp.get(table, "InDatagrams")?.cast_unsigned();
        Some(totals.add(format!("{inode} {table}.InDatagrams"), value, Width::Bits64, *late))
    });
    let received = Count::new(received.sum());
    now.namespaces.push(Namespace { inode, name: watched.name.clone(), received });
}

/// What the counters that all namespaces share tell of losses.
pub(super) fn machine(totals: &mut Totals, now: &mut Snapshot) {
    match reading::of_machine() {
        Ok(values) => {
            let values = values.into_iter();
            let counted = values.map(|(id, value)| {
                let total = add(totals, None, &id, value, false);
                (id, total)
            });
            let losses = counted.collect::<reading::Totals>().losses();
            now.counted.extend(losses.into_iter().map(|loss| Counted::new(None, loss)));
        }
        Err(error) => now.notes.push(error.to_string()),
    }
}

fn add(totals: &mut Totals, namespace: Option<u32>, id: &Id, value: u64, is_new: bool) -> u64 {
    let Id { counter, interface, name, part } = id;
    totals.add(format!("{namespace:?} {counter} {interface} {name} {part}"), value, counter.width(), is_new)
}
