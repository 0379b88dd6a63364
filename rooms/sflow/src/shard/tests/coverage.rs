//! Values and 95 % intervals of flows, as questions find them, against the truth smoothed by the same kernel: from the model's
//! traffic over a network that loses datagrams into a shard, on a virtual clock.

use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use weir_testbed::random::Source;

use crate::config::Config;
use crate::events::Log;
use crate::flows::{Definition, Moments};
use crate::model::{CLASSES, Fleet, Plan, Traffic};
use crate::names::Lookups;
use crate::sampling::tests::fabric::{Fabric, Loss};
use crate::shard::{Now, Shard};

/// Time constant of the definitions, s.
const T: f64 = 2.0;
/// Questions are so far apart, s, that what they see is independent but for a twentieth.
const APART: f64 = 3.0 * T;
/// Agents, each behind a path of its own, and their interfaces.
const AGENTS: u32 = 5;
const INTERFACES: u32 = 4;
/// Independent windows: so many questions, of each agent.
const QUESTIONS: usize = 200;
/// Time in which the analyser learns how the network loses, s.
const LEARNING: f64 = 300.0;

/// What is compared: a class of a tenth of the packets, and all together.
const DEFINITIONS: [(&str, &str, &str); 3] =
    [("frames", "udpdestinationport", "frames"), ("bytes", "udpdestinationport", "bytes"), ("all", "", "bytes")];

/// What really passes an interface, smoothed.
struct Smoothed {
    traffic: Traffic,
    at: f64,
    frames: [u64; CLASSES.len()],
    rates: [f64; CLASSES.len()],
}

impl Smoothed {
    fn new(traffic: Traffic) -> Self {
        Self { traffic, at: 0.0, frames: Default::default(), rates: Default::default() }
    }

    /// Frames a second by class, as the kernel exp(-age / t) / t weighs them. What lies between two samples lies evenly.
    fn up_to(&mut self, at: f64) -> [f64; CLASSES.len()] {
        while self.traffic.next().at <= at {
            let sampled = self.traffic.take();
            self.pass(sampled.at, sampled.totals.frames);
        }
        let frames = self.traffic.totals_at(at).frames;
        self.pass(at, frames);
        self.rates
    }

    fn pass(&mut self, at: f64, frames: [u64; CLASSES.len()]) {
        let left = (-(at - self.at) / T).exp();
        for ((rate, before), now) in self.rates.iter_mut().zip(self.frames).zip(frames) {
            let passed = if at > self.at { (now - before) as f64 / (at - self.at) * (1.0 - left) } else { 0.0 };
            *rate = *rate * left + passed;
        }
        (self.at, self.frames) = (at, frames);
    }
}

/// Of one kind of flow, over all windows.
#[derive(Clone, Copy, Default)]
struct Sum {
    windows: u32,
    found: f64,
    truth: f64,
    covered: u32,
    /// As `covered`, if nothing were on its way.
    naive: u32,
    half: f64,
    samples: f64,
}

impl Sum {
    fn add(&mut self, moments: Moments, truth: f64) {
        let (estimate, naive) = (moments.estimate(), Moments { edges: 0.0, ..moments }.estimate());
        self.windows += 1;
        self.found += estimate.value;
        self.truth += truth;
        self.covered += u32::from((estimate.low..=estimate.high).contains(&truth));
        self.naive += u32::from((naive.low..=naive.high).contains(&truth));
        self.half += (estimate.high - estimate.low) / 2.0;
        self.samples += estimate.samples;
    }

    fn bias(&self) -> f64 {
        self.found / self.truth - 1.0
    }

    fn share(&self, windows: u32) -> f64 {
        f64::from(windows) / f64::from(self.windows)
    }
}

/// `samples`: of the class that is a tenth, within the smoothing time.
fn simulate(seed: u64, loss: Loss, samples: f64) -> [Sum; 3] {
    // Samples of equal weight are two time constants' worth of those that arrive.
    let share = match loss {
        Loss::Independent(share) | Loss::Bursts(share) => share,
    };
    let sampling_rate = 1_000;
    let packets_per_second = samples / 0.1 / (2.0 * T) / (1.0 - share) * f64::from(sampling_rate);
    let (agents, interfaces, polling) = (AGENTS, INTERFACES, Duration::from_secs(20));
    let plan = Plan { agents, interfaces, packets_per_second, sampling_rate, polling, longest: 1400, seed };
    let settings = Config::read("defaults", "").unwrap().settings;
    let mut shard = Shard::new(&settings, 0, Arc::<Lookups>::default(), Arc::new(Log::new(10)), Now::default());
    for (name, keys, value) in DEFINITIONS {
        let definition =
            Definition { keys: keys.into(), value: value.into(), t: T, active_timeout: 1e4, ..Definition::default() };
        let checked = Arc::new(definition.check().unwrap());
        shard.define(Now::default(), |flows, now| flows.define(name, checked, now)).unwrap();
    }
    let mut random = Source(seed);
    let mut paths: Vec<Fabric> = (0..AGENTS).map(|_| Fabric::new(Source(random.bits()), loss)).collect();
    let ports = (0..AGENTS).flat_map(|agent| (1..=INTERFACES).map(move |port| (agent, port)));
    let mut truths: Vec<_> = ports.map(|(agent, port)| Smoothed::new(plan.traffic(agent, port))).collect();
    let (mut fleet, mut sums) = (Fleet::new(&plan), [Sum::default(); 3]);
    let mut questions = (0..QUESTIONS).map(|question| LEARNING + question as f64 * APART).peekable();
    while let Some(&at) = questions.peek() {
        let (due, datagram) = fleet.next_datagram().unwrap();
        if due.at > at {
            ask(&shard, &plan, at, &mut truths, &mut sums);
            questions.next();
        }
        if !paths[due.agent as usize].loses() {
            let now = Now { nanos: (due.at * 1e9) as u64, unix_ms: 0 };
            shard.datagram(datagram, SocketAddr::from((Ipv4Addr::LOCALHOST, 9)), now);
        }
    }
    sums
}

fn ask(shard: &Shard, plan: &Plan, at: f64, truths: &mut [Smoothed], sums: &mut [Sum; 3]) {
    let truths: Vec<_> = truths.iter_mut().map(|truth| truth.up_to(at)).collect();
    let now = Now { nanos: (at * 1e9) as u64, unix_ms: 0 };
    for ((name, ..), sum) in DEFINITIONS.iter().zip(sums) {
        let scan = shard.scan(name, now).unwrap();
        scan.slice(0, usize::MAX, |flow| {
            let (id, source) = flow.seen_by();
            let std::net::IpAddr::V4(address) = shard.directory().address(id).unwrap() else { return };
            let agent = plan.agent_of(address).unwrap();
            let rates = truths[(agent * INTERFACES + source.index - 1) as usize];
            let of = |class: usize| match *name {
                "frames" => rates[class],
                _ => rates[class] * f64::from(CLASSES[class].frame_length),
            };
            let key = flow.show();
            match CLASSES.iter().position(|class| class.port.to_string() == key) {
                None => sum.add(flow.moments().unwrap(), (0..CLASSES.len()).map(of).sum()),
                Some(class) if CLASSES[class].share == 0.1 => sum.add(flow.moments().unwrap(), of(class)),
                Some(_) => {}
            }
        });
    }
}

#[test]
fn what_users_see_is_unbiased_and_its_intervals_hold() {
    let mut table = format!(
        "{:<7} {:>3} {:>8} {:<7} | {:>6} {:>7} {:>6} | {:>7}\n",
        "loss", "%", "samples", "flow", "bias", "covered", "+- %", "no edges"
    );
    let mut outcomes = Vec::new();
    for samples in [10.0, 50.0] {
        for (kind, loss, share) in [
            ("none", Loss::Independent(0.0), 0.0),
            ("single", Loss::Independent(0.1), 0.1),
            ("single", Loss::Independent(0.3), 0.3),
            ("1-100", Loss::Bursts(0.1), 0.1),
            ("1-100", Loss::Bursts(0.3), 0.3),
        ] {
            let sums = simulate(20_261_122, loss, samples);
            for ((name, ..), sum) in DEFINITIONS.iter().zip(sums) {
                writeln!(
                    table,
                    "{kind:<7} {:>3.0} {:>8.1} {name:<7} | {:>+6.2} {:>7.1} {:>6.1} | {:>7.1}",
                    share * 100.0,
                    sum.samples / f64::from(sum.windows),
                    sum.bias() * 100.0,
                    sum.share(sum.covered) * 100.0,
                    sum.half / sum.truth * 100.0,
                    sum.share(sum.naive) * 100.0,
                )
                .unwrap();
                outcomes.push((kind, name, sum));
            }
        }
    }
    println!("{table}");
    for (kind, name, sum) in outcomes {
        let (bias, covered) = (sum.bias(), sum.share(sum.covered));
        assert!(bias.abs() <= 0.01, "{kind} {name}: {bias}");
        // Of everything together hardly more is uncertain than what is on its way, which is lopsided.
        let right = if *name == "all" { 0.92..=0.97 } else { 0.94..=0.96 };
        assert!(right.contains(&covered), "{kind} {name}: {covered}");
    }
    insta::assert_snapshot!(table);
}
