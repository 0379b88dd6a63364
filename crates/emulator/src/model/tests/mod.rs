//! The model as a whole, through what it offers the data path.

mod plans;
mod properties;
mod snapshots;
mod statistics;
mod traces;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use super::*;

const MILLISECOND: Nanos = 1_000_000;

/// UDP from 10.0.0.1, port `source_port`, to 10.0.0.2, port 65432.
fn udp(source_port: u16) -> FlowTuple {
    FlowTuple {
        protocol: Some(17),
        source: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
        destination: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
        ports: Some((source_port, 65_432)),
    }
}

fn forward(seed: u64) -> Key {
    Key { seed, link: 0, direction: Way::Forward }
}

fn only_loss(loss: Loss) -> Impairments {
    Impairments { loss, ..Impairments::default() }
}

/// The planned drops among the first `packets` of one flow.
fn drops(loss: &Loss, key: Key, packets: u64) -> Vec<u64> {
    let mut direction = Direction::new(&only_loss(loss.clone()).into(), key);
    let flow = direction.flow(&udp(5000));
    for packet in 0..packets {
        direction.decide(flow, packet * MILLISECOND, 1028);
    }
    let drops = direction.drops().remove(0);
    assert!(drops.complete);
    assert_eq!(drops.packets, packets);
    drops.indexes
}
