//! Real frames through links that change under way.

use std::sync::Arc;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use weir_emulator::datapath::{Emulator, EmulatorSettings, Error};
use weir_emulator::model::{Impairments, Loss, Plan, Step, Trace};

use crate::links::{received, sockets};
use crate::network::{assert_sound, network, settled};

/// CLOCK_MONOTONIC, ns.
fn now() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

#[test]
fn a_step_takes_effect_once_the_clock_has_been_started() {
    let Some(network) = network() else { return };
    let emulator = Emulator::spawn(EmulatorSettings::default()).unwrap();
    let dead = Impairments { loss: Loss::Bernoulli(1.0), ..Impairments::default() };
    let steps = vec![Step { after: Duration::from_nanos(1), impairments: dead }];
    let plan = Plan { steps, ..Plan::default() };
    let link = network.attach_plans(&emulator, &plan, &Plan::default());
    let (sender, receiver) = sockets(&network);
    for _ in 0..10 {
        sender.send(b"through").unwrap();
        assert_eq!(receiver.recv(&mut [0; 100]).unwrap(), 7);
    }
    emulator.start_clock(link, now()).unwrap();
    for _ in 0..10 {
        sender.send(b"lost").unwrap();
    }
    let forward = settled(&emulator, link, received(20)).forward;
    assert_sound(&forward.ledger);
    assert_eq!((forward.ledger.lost, forward.ledger.delivered - forward.ledger.control), (10, 10));
    let drops = forward.drops.iter().find(|drops| drops.flow.protocol == Some(17)).unwrap();
    assert_eq!(drops.indexes, (10..20).collect::<Vec<_>>());
    emulator.detach(link).unwrap();
    assert!(matches!(emulator.start_clock(link, 0), Err(Error::UnknownLink(id)) if id == link));
}

/// One packet a millisecond from time 0 on, none of them early.
#[test]
fn a_trace_lets_packets_go_at_its_times() {
    let Some(network) = network() else { return };
    let emulator = Emulator::spawn(EmulatorSettings::default()).unwrap();
    let trace = Some(Arc::new(Trace::parse("1").unwrap()));
    let plan = Plan::from(Impairments { trace, ..Impairments::default() });
    let link = network.attach_plans(&emulator, &plan, &Plan::default());
    let (sender, receiver) = sockets(&network);
    let zero = now();
    emulator.start_clock(link, zero).unwrap();
    for _ in 0..50 {
        assert_eq!(sender.send(&[0; 1472]).unwrap(), 1472);
    }
    for number in 1..=50 {
        assert_eq!(receiver.recv(&mut [0; 2000]).unwrap(), 1472);
        let passed = now() - zero;
        assert!(passed >= number * 1_000_000, "packet {number} after {passed} ns");
    }
    assert_sound(&settled(&emulator, link, received(50)).forward.ledger);
}
