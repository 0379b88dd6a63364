//! Arbitrary text as a trace: refused with the line, or a link that delivers whatever waits for it, in order.
//!
//! `cargo +nightly fuzz run trace` (needs cargo-fuzz).
#![no_main]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use weir_emulator::model::{Decision, Direction, FlowTuple, Impairments, Key, Trace, Way};

fuzz_target!(|input: (&str, u64, Vec<(u64, u32)>)| {
    let (text, zero, packets) = input;
    let Ok(trace) = Trace::parse(text) else { return };
    assert!(trace.period() > 0 && trace.mean_bits_per_second() > 0.0);
    let link = Impairments { trace: Some(Arc::new(trace)), ..Impairments::default() };
    let mut direction = Direction::new(&link.into(), Key { seed: 1, link: 0, direction: Way::Forward });
    direction.start_clock(zero);
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let flow = FlowTuple { protocol: Some(17), source: address, destination: address, ports: Some((1, 2)) };
    let flow = direction.flow(&flow);
    let (mut now, mut last) = (0, 0);
    for (arrival, bytes) in packets {
        now = arrival.max(now);
        let Decision::Pass { release, .. } = direction.decide(flow, arrival, bytes) else { panic!("nothing is lost") };
        assert!(release >= now && release >= last);
        last = release;
    }
});
