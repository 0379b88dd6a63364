//! What an agent makes of its traffic: samples and counters, in datagrams.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;
use weir_wire::sflow::encode::{self, Header};

use super::encoding::{LONGEST_SAMPLE, Waiting};
use super::{Plan, Pool, Sampled, Traffic};

/// One agent, with the datagram that it sends next.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    plan: Plan,
    agent: u32,
    ports: Vec<Port>,
    /// How long it had been up at the start, ms.
    uptime: u32,
    /// The samples of the datagram that is filled.
    waiting: Vec<Waiting>,
    datagram: Vec<u8>,
    due: Due,
}

/// A datagram, and when it is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Due {
    /// In seconds since the start: of its last sample, or when the agent waits no longer for more.
    pub(crate) at: f64,
    /// Whose, from 0.
    pub(crate) agent: u32,
    /// Its number, from 1, as it says itself.
    pub(crate) sequence: u32,
    /// Samples in it, of packets and of counters.
    pub(crate) samples: u32,
}

#[derive(Clone, Debug)]
struct Port {
    index: u32,
    traffic: Traffic,
    /// Flow samples so far.
    samples: u32,
    /// Counter samples so far.
    polls: u32,
    /// What its counters and its pool showed at the start: totals wrap sooner or later.
    counted: Counted,
}

#[derive(Clone, Copy, Debug)]
struct Counted {
    octets: u64,
    packets: u32,
    pool: u32,
}

impl Agent {
    /// The agent of this number, from 0, at the start of time.
    pub(crate) fn new(plan: &Plan, agent: u32) -> Self {
        let mut random = Pcg64::new(u128::from(plan.seed), u128::from(u64::MAX - u64::from(agent)));
        let port = |index: u32| {
            // Both wrap within the first half minute or so.
            let mut soon = || u32::MAX - (plan.packets_per_second * f64::from(random.next_u32() % 30)) as u32;
            let (packets, pool) = (soon(), soon());
            let octets = random.next_u64() >> 20;
            let counted = Counted { octets, packets, pool };
            Port { index, traffic: plan.traffic(agent, index), samples: 0, polls: 0, counted }
        };
        let ports = (1..=plan.interfaces).map(port).collect();
        let uptime = random.next_u32() >> 1;
        let due = Due { agent, ..Due::default() };
        let mut agent =
            Self { plan: plan.clone(), agent, ports, uptime, waiting: Vec::new(), datagram: Vec::new(), due };
        agent.fill();
        agent
    }

    /// When its next datagram is complete.
    pub(crate) fn due(&self) -> &Due {
        &self.due
    }

    /// Takes that out, in place of what is in `datagram`.
    pub(crate) fn take(&mut self, datagram: &mut Vec<u8>) -> Due {
        std::mem::swap(&mut self.datagram, datagram);
        let due = self.due;
        self.fill();
        due
    }

    /// Collects samples until the datagram is full or its first one has waited long enough. With counters it leaves at once, as
    /// from InMon's agent: only the datagram's uptime tells when they were read.
    fn fill(&mut self) {
        let mut due = Due { at: f64::INFINITY, sequence: self.due.sequence + 1, samples: 0, ..self.due };
        let most = (self.plan.longest.saturating_sub(HEADER) / LONGEST_SAMPLE).clamp(1, MOST_SAMPLES);
        let mut latest = f64::INFINITY;
        self.waiting.clear();
        while self.waiting.len() < most {
            let Some((at, port, polled)) = self.event() else { break };
            if at >= latest {
                due.at = latest;
                break;
            }
            let sample = self.sample(at, port, polled);
            self.waiting.push(sample);
            due.at = at;
            latest = latest.min(at + PATIENCE);
            if polled {
                break;
            }
        }
        due.samples = self.waiting.len() as u32;
        let uptime = self.uptime.wrapping_add((due.at * 1e3) as u32);
        let header = Header { agent: Plan::address(self.agent).into(), sub_agent: 0, sequence: due.sequence, uptime };
        self.datagram.clear();
        let mut samples = encode::datagram(&mut self.datagram, &header);
        self.waiting.iter().for_each(|sample| sample.write(&mut samples));
        self.due = due;
    }

    /// What happens next: when, at which port, and whether its counters are read.
    fn event(&self) -> Option<(f64, usize, bool)> {
        let of = |(place, port): (usize, &Port)| {
            let (sampled, polled) =
                (port.traffic.next().at, self.plan.polled_at(self.agent, port.index, port.polls + 1));
            (sampled.min(polled), place, polled <= sampled)
        };
        self.ports.iter().enumerate().map(of).min_by(|a, b| a.0.total_cmp(&b.0))
    }

    fn sample(&mut self, at: f64, place: usize, polled: bool) -> Waiting {
        let (sampling_rate, output) = (self.plan.sampling_rate, (place as u32 + 1) % self.plan.interfaces + 1);
        let Port { index, traffic, samples, polls, counted } = &mut self.ports[place];
        let interface = *index;
        if polled {
            *polls += 1;
            let totals = traffic.totals_at(at);
            let octets = counted.octets.wrapping_add(totals.bytes());
            let packets = counted.packets.wrapping_add(totals.packets() as u32);
            return Waiting::Counters { sequence: *polls, interface, octets, packets };
        }
        *samples += 1;
        let Sampled { class, totals, .. } = traffic.take();
        let grown = match self.plan.pool {
            Pool::Counted => totals.packets() as u32,
            Pool::MadeUp => samples.wrapping_mul(sampling_rate),
            Pool::Still => 0,
        };
        let pool = counted.pool.wrapping_add(grown);
        let from = SOURCES + (self.agent << 8) + (*samples % SOURCES_OF_AN_AGENT);
        Waiting::Flow { sequence: *samples, interface, output, sampling_rate, pool, class, from }
    }
}

/// Samples of a datagram at most: about as many as fit into one of 1400 bytes.
const MOST_SAMPLES: usize = 7;

/// How long a sample waits for others, s (sFlow version 5, section 3.3).
const PATIENCE: f64 = 1.0;

/// Bytes of a datagram before its samples.
const HEADER: usize = 28;

/// The first address of those that packets come from: 10.0.0.1.
const SOURCES: u32 = 0x0a00_0001;

/// Addresses that the packets of an agent come from.
const SOURCES_OF_AN_AGENT: u32 = 200;
