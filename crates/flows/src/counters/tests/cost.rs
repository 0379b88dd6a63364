//! What it all costs: 50,000 agents with 20 interfaces each, each with both records of counters.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;

use weir_wire::sflow::DataSource;

use super::super::{Counters, Reasons};
use super::wire::{datagram, sample, words};
use crate::agents::{Agents, Identity, Limits, Nanos, SECOND, Told};
use crate::sampling::Sampler;

#[derive(Default)]
struct State {
    sampler: Sampler,
    counters: Counters,
}

struct Work {
    agents: Agents<State>,
    reasons: Reasons,
    counters: Vec<u8>,
}

impl Work {
    /// A datagram of each agent, with 4 flow samples or a counter sample of each interface. Nanoseconds each.
    fn turn(&mut self, now: Nanos, count: u32, number: u32, counters: bool) -> f64 {
        let begun = Instant::now();
        let counters_told = sample(&self.counters);
        for agent in 0..count {
            let who = Identity { address: IpAddr::V4(Ipv4Addr::from_bits(agent)), sub_agent: 0 };
            let told = Told { number, uptime: (now / 1_000_000) as u32, content: number };
            let peer = SocketAddr::new(who.address, 6343);
            let Ok(placed) = self.agents.datagram(now, who, peer, &told) else { continue };
            let samples = if counters { 20 } else { 4 };
            for index in 0..samples {
                let Some(state) = self.agents.source(&placed, DataSource { class: 0, index }) else { continue };
                if counters {
                    state.counters.sample(placed.moment, &counters_told, &mut self.reasons);
                } else {
                    state.sampler.sample(&placed.moment, number, 400, number * 400, 0);
                }
            }
        }
        begun.elapsed().as_nanos() as f64 / f64::from(count)
    }
}

/// Resident memory, bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Run by hand, optimised: it prints what a datagram costs, and a data source in memory.
#[test]
#[ignore = "takes a gigabyte, and says something only where it is optimised"]
fn of_50_000_agents() {
    let interface = super::wire::Interface {
        speed: 1_000_000_000,
        status: 3,
        in_octets: 5,
        in_packets: 5,
        in_errors: 0,
        out_octets: 5,
        out_packets: 5,
    };
    let counters = datagram(1, &[(1, interface.body()), (2, words(&[0; 13]))]);
    for count in [10, 1_000, 50_000] {
        let before = resident();
        let limits = Limits::default();
        let mut work = Work { agents: Agents::new(limits), reasons: Reasons::default(), counters: counters.clone() };
        let mut number = 0;
        for _ in 0..4 {
            number += 1;
            work.turn(u64::from(number) * SECOND, count, number, number % 2 == 0);
        }
        let (mut flows, mut totals, turns) = (0.0, 0.0, (2_000 / count).max(3));
        for _ in 0..turns {
            number += 2;
            flows += work.turn(u64::from(number - 1) * SECOND, count, number - 1, false) / f64::from(turns);
            totals += work.turn(u64::from(number) * SECOND, count, number, true) / f64::from(turns);
        }
        let sources = work.agents.source_count() as u64;
        println!(
            "{count} agents, {sources} data sources, {} B each: a datagram of 4 flow samples {flows:.0} ns, \
             of 20 counter samples {totals:.0} ns: {:.0} ns a counter sample",
            resident().saturating_sub(before) / sources,
            totals / 20.0
        );
    }
}
