//! From datagrams to a route, with what a device says of its interface's speed: that bounds nothing.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use weir_protect::guard;
use weir_protect::model::Phase;
use weir_protect::room::{Engine, queue};
use weir_testbed::random::Source as Random;
use weir_wire::sflow::encode::{self, Counters, Flow, Header};
use weir_wire::sflow::{DataFormat, DataSource, Interface};

use crate::config::Settings;
use crate::events::Log;
use crate::names::Lookups;
use crate::shard::{Now, Shard};

const AGENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const SECOND: u64 = 1_000_000_000;
const PORT: DataSource = DataSource { class: 0, index: 3 };
const RATE: u32 = 1_000;
const LENGTH: u32 = 1_000;
const PROTECT: &str = r#"
[protect]
mode = "automatic"
agents = ["10.0.0.1"]
journal = "/tmp/never-written"
speaker = { gobgp = "127.0.0.1:50051" }
[protect.groups.web]
networks = ["192.0.2.0/24"]
thresholds.udp_flood.packets = "40k/s"
[[protect.groups.web.levels]]
action = "drop"
harm = "100%"
"#;

/// Two minutes of 10,000 packets/s to a host, in at an interface of such an ifSpeed whose counters agree; then three seconds of twenty times as many.
fn phases(speed: u64) -> Vec<Phase> {
    let mut random = Random::drawn();
    let settings = Settings::read("here", PROTECT).unwrap();
    let protect = settings.protect.clone().unwrap();
    let mut shard =
        Shard::new(&settings.config.limits, (0, 1), Arc::<Lookups>::default(), Arc::new(Log::new(10)), Now::default());
    let (mut outlet, mut inlet) = queue(4_096, &protect.protected(), Arc::default());
    outlet.listen(Arc::new(protect.listed()));
    shard.protect(outlet);
    let mut engine = Engine::new(protect);
    let (mut passed, mut number) = (0_u32, 0_u32);
    for turn in 0..1_230_u64 {
        let nanos = 1_000 * SECOND + turn * SECOND / 10;
        let rate = if turn < 1_200 { 10_000.0 } else { 200_000.0 };
        let mut bytes = Vec::new();
        let header = Header { agent: AGENT, sub_agent: 0, sequence: turn as u32 + 1, uptime: 77 + turn as u32 * 100 };
        let mut samples = encode::datagram(&mut bytes, &header);
        for _ in 0..random.poisson(rate / 10.0 / f64::from(RATE)) as u32 {
            (passed, number) = (passed + RATE, number + 1);
            let (input, output) = (Interface::Index(3), Interface::Index(4));
            let (sampling_rate, sample_pool, sequence) = (RATE, passed, number);
            let flow =
                Flow { sequence, source: PORT, sampling_rate, sample_pool, drops: 0, input, output, expanded: false };
            samples.flow(&flow).raw(DataFormat { enterprise: 0, format: 1 }, &frame());
        }
        if turn % 100 == 0 {
            let octets = u64::from(passed) * u64::from(LENGTH);
            let high = |value: u64| (value >> 32) as u32;
            let words = [3, 6, high(speed), speed as u32, 1, 3, high(octets), octets as u32, passed];
            let words = words.into_iter().chain([u32::MAX; 2]).chain([0; 11]);
            let body: Vec<u8> = words.flat_map(u32::to_be_bytes).collect();
            let of = Counters { sequence: turn as u32 / 100 + 1, source: PORT, expanded: false };
            samples.counters(&of).raw(DataFormat { enterprise: 0, format: 1 }, &body);
        }
        shard.datagram(&bytes, SocketAddr::new(AGENT, 6343), Now { nanos, unix_ms: nanos / 1_000_000 });
        inlet.take(4_096, u64::MAX, |news| engine.take(news));
        engine.step(guard::Now { nanos, wall: UNIX_EPOCH + Duration::from_nanos(nanos) }, nanos);
    }
    let now = guard::Now { nanos: 1_200 * SECOND, wall: UNIX_EPOCH + Duration::from_secs(1_200) };
    let board = engine.board(None, weir_protect::model::Counts::default(), now);
    board.attacks.iter().map(|attack| attack.phase).collect()
}

/// A sampled header of a UDP packet from port 53 to 192.0.2.7.
fn frame() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 3, 218, 0, 1, 0, 0, 64, 17, 0, 0, 203, 0, 113, 9, 192, 0, 2, 7]);
    frame.extend([0, 53, 4, 0, 3, 198, 0, 0]);
    frame.resize(64, 0);
    [[1, LENGTH, 4, frame.len() as u32].map(u32::to_be_bytes).concat(), frame].concat()
}

/// 1,000 bit/s, 10 Mbit/s and all ones where a Gbit/s flows; 0 says nothing.
#[test]
fn a_flood_is_announced_whatever_speed_its_interface_is_said_to_have() {
    for speed in [0, 1_000, 10_000_000, 1_000_000_000, u64::from(u32::MAX), u64::MAX] {
        assert_eq!(phases(speed), [Phase::Active], "ifSpeed {speed}");
    }
}
