//! Counters of an interface: `if_counters`, `ethernet_counters`, `port_name`.

use weir_kernel::counters::LinkCounters;
use weir_kernel::ethtool::LinkMode;
use weir_wire::sflow::Space;
use weir_wire::sflow::encode::{Put, Records};

use super::{ABSENT, put, wrapped};

/// Writes all that is known of it. Octets, packets, errors and discards are those of /proc/net/dev. Linux does not count
/// broadcasts, and what is sent by kind.
pub(crate) fn write(records: &mut Records<'_>, link: &LinkCounters, mode: LinkMode) {
    let count = &link.statistics;
    let kind = if link.loopback {
        LOOPBACK
    } else if link.ethernet {
        ETHERNET
    } else {
        OTHER
    };
    let direction = mode.full_duplex.map_or(0, |full| if full { 1 } else { 2 });
    let values = [
        Put::U32(link.index),
        Put::U32(kind),
        Put::U64(u64::from(mode.speed_mbit.unwrap_or(0)) * 1_000_000),
        Put::U32(direction),
        Put::U32(u32::from(link.up) | u32::from(link.carrier) << 1),
        Put::U64(count.rx_bytes),
        wrapped(count.rx_packets.wrapping_sub(count.multicast)),
        wrapped(count.multicast),
        ABSENT,
        wrapped(count.rx_dropped + count.rx_missed_errors),
        wrapped(count.rx_errors),
        ABSENT,
        Put::U64(count.tx_bytes),
        wrapped(count.tx_packets),
        ABSENT,
        ABSENT,
        wrapped(count.tx_dropped),
        wrapped(count.tx_errors),
        Put::U32(if link.promiscuous { 1 } else { 2 }),
    ];
    put(records, Space::Counter, "if_counters", &values);
    if kind == ETHERNET {
        put(
            records,
            Space::Counter,
            "ethernet_counters",
            &[
                wrapped(count.rx_frame_errors),
                wrapped(count.rx_crc_errors),
                ABSENT,
                ABSENT,
                wrapped(count.tx_heartbeat_errors),
                ABSENT,
                wrapped(count.tx_window_errors),
                wrapped(count.tx_aborted_errors),
                wrapped(count.tx_fifo_errors),
                wrapped(count.tx_carrier_errors),
                wrapped(count.rx_length_errors),
                wrapped(count.rx_fifo_errors),
                ABSENT,
            ],
        );
    }
    put(records, Space::Counter, "port_name", &[Put::Text(link.name.as_bytes())]);
}

/// IANAifType.
const OTHER: u32 = 1;
const ETHERNET: u32 = 6;
const LOOPBACK: u32 = 24;
