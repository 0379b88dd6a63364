//! What a cell will need of the processors, guessed before it runs: who may run beside whom.

use std::time::Duration;

use weir_stats::tcp_models;
use weir_traffic::Transport;

use crate::scenario::{Engine, Mode, Scenario, Traffic};
use crate::sweep::Cell;
use crate::topology::{Path, Topology};
use crate::{cell, endpoints};

/// Processors that a cell is expected to keep busy, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost {
    /// Processors.
    pub(super) processors: f64,
    /// From building its network to its end.
    pub(super) time: Duration,
}

impl Cost {
    /// Guesses for a cell whose network has been checked.
    pub(super) fn of(cell: &Cell, topology: &Topology) -> Cost {
        let scenario = &cell.scenario;
        let load = cell::load(scenario).zip(topology.load.as_ref().map(|load| &load.paths[0]));
        let traffic = std::iter::once((&scenario.traffic, &topology.traffic.paths[0])).chain(load);
        let moving: f64 = traffic.map(|(traffic, path)| for_traffic(scenario, traffic, topology, path)).sum();
        // Whoever waits for datagrams waits for lost ones, too.
        let waits = scenario.traffic.mode != Mode::Bulk || scenario.traffic.transport == Transport::Udp;
        let drain = if waits { scenario.run.drain.duration() } else { Duration::ZERO };
        // What is sent before the window; messages have no warm-up of their own.
        let own = if scenario.traffic.mode == Mode::Bulk { scenario.traffic.warmup.duration() } else { Duration::ZERO };
        let head_start = cell::load(scenario).map_or(Duration::ZERO, |load| load.warmup.duration());
        let window = head_start + own + scenario.run.duration.duration();
        Cost { processors: IDLE + moving, time: window + drain + OVERHEAD }
    }
}

fn for_traffic(scenario: &Scenario, traffic: &Traffic, topology: &Topology, path: &Path) -> f64 {
    let hops = (path.forward.len() + path.backward.len()) as f64 / 4.0;
    match (traffic.mode, traffic.transport) {
        (Mode::Messages, _) => {
            let receivers = topology.traffic.receivers.len() as f64;
            PER_MESSAGE * hops * receivers / endpoints::interval(traffic).as_secs_f64().max(1e-6)
        }
        // Nobody knows what programs need.
        (Mode::Programs, _) => f64::INFINITY,
        (Mode::Bulk, transport) => {
            let datagrams = traffic.rate.filter(|_| transport == Transport::Udp).map(|rate| {
                let a_second = rate.bits_per_second as f64 / 8.0 / traffic.payload.bytes.max(1) as f64;
                a_second * PER_DATAGRAM * hops
            });
            if let Some(datagrams) = datagrams {
                return datagrams;
            }
            let rate = expected_rate(scenario, traffic, topology, path);
            let engine = if traffic.engine == Engine::Iperf3 { 1.2 } else { 1.0 };
            let protocol = if matches!(transport, Transport::Quic | Transport::QuicDatagram) { 4.0 } else { 1.0 };
            rate * PER_BIT * hops * engine * protocol
        }
    }
}

/// What a connection may reach, generously: the model of its loss, up to the path's rate.
fn expected_rate(scenario: &Scenario, traffic: &Traffic, topology: &Topology, path: &Path) -> f64 {
    let limit = topology.rate_mbit(&path.forward).map_or(UNSHAPED, |rate| rate * 1e6);
    let rtt = (topology.latency_ms(&path.forward) + topology.latency_ms(&path.backward)) / 1e3 + 100e-6;
    let loss = topology.loss(&path.forward);
    // BBR does not yield to loss.
    let yields = tcp_models::is_loss_driven(&scenario.tcp.congestion) || loss > 0.2;
    if loss <= 0.0 || !yields {
        return limit;
    }
    let model = tcp_models::mathis(loss, Duration::from_secs_f64(rtt), 1448, 1.0);
    model.map_or(0.0, |rate| GENEROSITY * rate * f64::from(traffic.streams)).min(limit)
}

/// What the threads and timers of a cell with hardly any traffic take.
const IDLE: f64 = 0.02;

/// One message, over two emulated links, one way.
const PER_MESSAGE: f64 = 40e-6;

/// One datagram of seven samples, modelled, analysed and judged.
const PER_EXPORT: f64 = 60e-6;

/// One datagram in bulk, over two emulated links.
const PER_DATAGRAM: f64 = 12e-6;

/// One bit of a bulk transfer over two emulated links: 1 Gbit/s fills 1.6 processors.
const PER_BIT: f64 = 1.6e-9;

/// Bits a second of a path without a shaper.
const UNSHAPED: f64 = 4e9;

/// CUBIC reaches more than Mathis's model at low loss.
const GENEROSITY: f64 = 1.5;

/// Building and settling a network, and connecting.
const OVERHEAD: Duration = Duration::from_millis(700);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::Sweep;

    /// Two links one way, two back; in front of it what is sent.
    const NETWORK: &str = r#"
        [run]
        duration = "60s"
        drain = "10s"
        [hosts.a]
        addresses = ["10.0.0.1/24"]
        [hosts.b]
        addresses = ["10.0.0.2/24"]
        [switches.s]
        [links.one]
        ends = ["a", "s"]
        [links.other]
        ends = ["s", "b"]
        [traffic]
        from = "a"
        to = "b"
        port = 5201
    "#;
    const MESSAGES: &str = r#"transport = "udp"
        payload = "1000B"
        interval = "10ms""#;
    const BULK: &str = r#"mode = "bulk"
        transport = "tcp"
        payload = "128kB"
        warmup = "2s""#;

    #[track_caller]
    fn cost(traffic: &str, changes: &[(&str, &str)]) -> Cost {
        let text = format!("name = \"test\"\ntitle = \"Test\"\n{NETWORK}{traffic}");
        let sweep = Sweep::of_test("test.toml", &text, changes).unwrap_or_else(|error| panic!("{error:#}"));
        let cell = &sweep.cells[0];
        Cost::of(cell, &cell.topology().unwrap())
    }

    /// Processors beyond those of an idle cell.
    #[track_caller]
    fn moving(traffic: &str, changes: &[(&str, &str)]) -> f64 {
        cost(traffic, changes).processors - 0.02
    }

    #[track_caller]
    fn assert_near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9 * expected.abs(), "{value} instead of {expected}");
    }

    #[test]
    fn messages_cost_by_their_number() {
        // 100 a second, 40 us each.
        assert_near(moving(MESSAGES, &[]), 0.004);
        assert_near(moving(MESSAGES, &[("traffic.interval", "1ms")]), 0.04);
        assert_near(moving(MESSAGES, &[("traffic.payload", "100B")]), 0.004);
    }

    #[test]
    fn who_waits_for_what_is_lost_takes_longer() {
        let seconds = |traffic, changes: &[_]| cost(traffic, changes).time.as_secs_f64();
        assert_near(seconds(MESSAGES, &[]), 60.0 + 10.0 + 0.7);
        assert_near(seconds(MESSAGES, &[("traffic.transport", "tcp")]), 60.0 + 10.0 + 0.7);
        assert_near(seconds(BULK, &[]), 2.0 + 60.0 + 0.7);
        let udp = [("traffic.transport", "udp"), ("traffic.payload", "1000B"), ("traffic.rate", "8mbit")];
        assert_near(seconds(BULK, &udp), 2.0 + 60.0 + 10.0 + 0.7);
    }

    #[test]
    fn bulk_fills_what_the_path_carries() {
        // 1 Gbit/s fills 1.6 processors; without a shaper it is 4.
        let rate = |rate| ("links.one.rate", rate);
        assert_near(moving(BULK, &[rate("1gbit")]), 1.6);
        assert_near(moving(BULK, &[rate("250mbit")]), 0.4);
        assert_near(moving(BULK, &[]), 6.4);
        assert_near(moving(BULK, &[rate("1gbit"), ("traffic.transport", "quic")]), 4.0 * 1.6);
        assert_near(moving(BULK, &[rate("1gbit"), ("traffic.engine", "iperf3")]), 1.2 * 1.6);
        // Datagrams of a given rate cost by their number, 12 us each: 1000 a second.
        let udp = [("traffic.transport", "udp"), ("traffic.payload", "1000B"), ("traffic.rate", "8mbit")];
        assert_near(moving(BULK, &udp), 0.012);
    }

    #[test]
    fn loss_holds_back_who_yields_to_it() {
        let lossy = [("links.one.rate", "1gbit"), ("links.one.loss", "1%"), ("links.other.delay", "20ms")];
        let of = |congestion| moving(BULK, &[&lossy[..], &[("tcp.congestion", congestion)]].concat());
        // Mathis: 1448 bytes every 40.1 ms, times 1.22 / sqrt(1 %), half as much again.
        let rate = 1.5 * 1448.0 * 8.0 / 0.0401 * (1.5_f64 / 0.01).sqrt();
        assert_near(of("cubic"), rate * 1.6e-9);
        assert_near(of("bbr"), 1.6);
        let both = [&lossy[..], &[("tcp.congestion", "cubic"), ("traffic.streams", "2")]].concat();
        assert_near(moving(BULK, &both), 2.0 * rate * 1.6e-9);
    }
}
