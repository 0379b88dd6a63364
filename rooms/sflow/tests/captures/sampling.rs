//! What agents, samples and counters are taken for, against arithmetic on the first and last datagram.

use std::collections::HashMap;
use std::fs;
use std::net::SocketAddr;

use weir_sflow::agents::{AgentLedger, Agents, Identity, Limits, Told};
use weir_sflow::counters::{Counters, Reason, Reasons};
use weir_sflow::sampling::Sampler;
use weir_wire::ip::Headers;
use weir_wire::pcap::{Reader, Step};
use weir_wire::sflow::{Datagram, Sample};

#[derive(Default)]
struct State {
    sampler: Sampler,
    counters: Counters,
    /// Packets by weights, but for the first sample, which nothing is before.
    frames: f64,
    /// What the rates of received octets come to over their intervals.
    octets: f64,
}

struct Seen {
    agents: Agents<State>,
    reasons: Reasons,
}

/// All datagrams of a capture, at the time at which they were captured. `None`: there are no captures here.
fn see(name: &str) -> Option<Seen> {
    let file = fs::read(crate::captures()?.join(name)).unwrap();
    let mut seen = Seen { agents: Agents::new(Limits::default()), reasons: Reasons::default() };
    let (mut reader, mut at) = (Reader::new(), 0);
    while let Ok(Step::Used(used, packet)) = reader.step(&file[at..]) {
        at += used;
        let Some(packet) = packet else { continue };
        let Ok(ip) = packet.link.ip(packet.bytes) else { continue };
        let Ok(headers) = Headers::parse(ip) else { continue };
        let Ok(datagram) = Datagram::parse(headers.body(ip).get(8..).unwrap_or_default()) else { continue };
        let port = headers.body(ip).first_chunk().map_or(0, |port| u16::from_be_bytes(*port));
        seen.take(packet.stamp.unwrap_or(0), SocketAddr::new(headers.source, port), &datagram);
    }
    Some(seen)
}

impl Seen {
    fn take(&mut self, now: u64, peer: SocketAddr, datagram: &Datagram<'_>) {
        let who = Identity { address: datagram.agent, sub_agent: datagram.sub_agent };
        let told = Told { number: datagram.sequence, uptime: datagram.uptime, content: datagram.uptime };
        let Ok(placed) = self.agents.datagram(now, who, peer, &told) else {
            return;
        };
        for sample in datagram.samples().map_while(Result::ok) {
            match sample {
                Sample::Flow(flow) => {
                    let state = self.agents.source(&placed, flow.source).expect("room for it");
                    let first = state.sampler.nominal_rate() == 0;
                    let (rate, pool) = (flow.sampling_rate, flow.sample_pool);
                    let weight = state.sampler.sample(&placed.moment, flow.sequence, rate, pool, flow.drops);
                    let weight = weight.expect("none comes twice");
                    state.frames += if first { 0.0 } else { weight.frames };
                }
                Sample::Counters(counters) => {
                    let state = self.agents.source(&placed, counters.source).expect("room for it");
                    state.counters.sample(placed.moment, &counters, &mut self.reasons);
                    let block = state.counters.blocks().iter().find(|block| block.structure.name == "if_counters");
                    let rate = block.and_then(|block| Some((block.rate(5).ok()?, f64::from(block.interval))));
                    state.octets += rate.map_or(0.0, |(rate, interval)| rate * interval);
                }
                _ => {}
            }
        }
    }

    fn ledger(&self) -> AgentLedger {
        let mut agents = self.agents.starting_at(0);
        let ledger = agents.next().expect("an agent").1.ledger();
        assert!(agents.next().is_none());
        ledger
    }
}

/// 1000 datagrams of a switch, nothing missing; source 0:47 went from sample 28696, pool 26431550, to 34550, 28191333.
#[test]
fn a_switch() {
    let Some(seen) = see("overflowd-sflow.pcap") else { return };
    let ledger = seen.ledger();
    let faults = (ledger.sequence.lost, ledger.restarts, ledger.sequence.duplicates);
    assert_eq!((ledger.sequence.received, faults), (1_000, (0, 0, 0)));
    let agent = seen.agents.starting_at(0).next().unwrap().1;
    let states: HashMap<_, _> =
        seen.agents.sources_of(agent).map(|source| (source.id.source.index, &source.state)).collect();
    let sampled = states[&47];
    let grown = 28_191_333.0 - 26_431_550.0;
    // All but what is kept of the last 128 samples.
    assert!((sampled.frames / grown - 1.0).abs() < 0.01, "{} of {grown}", sampled.frames);
    assert_eq!((sampled.sampler.ledger().received, sampled.sampler.ledger().lost), (5_855, 0));
    assert!(sampled.sampler.counts_packets());
    // Octets of source 0:44: from 167925 on, 12 samples in all.
    let counted = states[&44];
    let last = counted.counters.blocks()[0].value(5).unwrap();
    assert!((counted.octets - (last - 167_925.0)).abs() < 1.0, "{} of {}", counted.octets, last - 167_925.0);
    let doubted = [Reason::Impossible, Reason::Reset, Reason::Restart, Reason::Ambiguous];
    assert!(doubted.iter().all(|&reason| seen.reasons.of(reason) == 0), "{:?}", seen.reasons);
    assert!(counted.counters.polling().is_some_and(|polling| (8.0..20.0).contains(&polling)));
}

/// 109 datagrams of hsflowd; its pool is 10 x its number of samples.
#[test]
fn a_host() {
    let Some(seen) = see("hsflowd-host-pcap-dropmon.pcap") else { return };
    let ledger = seen.ledger();
    assert_eq!((ledger.sequence.received, ledger.sequence.lost), (109, 0));
    let agent = seen.agents.starting_at(0).next().unwrap().1;
    let sampled = seen.agents.sources_of(agent).find(|source| source.state.frames > 0.0).unwrap();
    assert_eq!(sampled.state.frames, 545.0 * 10.0);
    assert!(!sampled.state.sampler.counts_packets());
    let of_host = seen.agents.sources_of(agent).find(|source| source.id.source.class == 2).unwrap();
    let cpu = of_host.state.counters.blocks().iter().find(|block| block.structure.name == "host_cpu").unwrap();
    assert!((1.9..2.1).contains(&cpu.interval), "{}", cpu.interval);
    let doubted = [Reason::Impossible, Reason::Reset, Reason::Restart, Reason::Ambiguous];
    assert!(doubted.iter().all(|&reason| seen.reasons.of(reason) == 0), "{:?}", seen.reasons);
}

/// 25 datagrams over IPv6; the uptime counts whole seconds.
#[test]
fn an_agent_that_counts_seconds() {
    let Some(seen) = see("tcpdump-sflow-print-v6.pcap") else { return };
    let ledger = seen.ledger();
    assert_eq!((ledger.sequence.received, ledger.sequence.lost), (25, 0));
    let agent = seen.agents.starting_at(0).next().unwrap().1;
    // Counters every 10 s, in a datagram of every second.
    for source in seen.agents.sources_of(agent).filter(|source| source.state.counters.polling().is_some()) {
        let polling = source.state.counters.polling().unwrap();
        assert!((9.0..11.0).contains(&polling), "{polling}");
    }
}

/// Several switches, one of them with two sub-agents: each is somebody else.
#[test]
fn a_network() {
    let Some(seen) = see("tcpdump-sflow_multiple_counter_30_pdus.pcap") else { return };
    assert!(seen.agents.starting_at(0).count() >= 6);
    for (_, agent) in seen.agents.starting_at(0) {
        let ledger = agent.ledger();
        assert_eq!((ledger.sequence.lost, agent.streams().len()), (0, 1), "{:?}", agent.identity);
    }
    let doubted = [Reason::Impossible, Reason::Reset, Reason::Restart, Reason::Ambiguous];
    assert!(doubted.iter().all(|&reason| seen.reasons.of(reason) == 0), "{:?}", seen.reasons);
}
