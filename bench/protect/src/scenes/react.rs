//! From a sample to a route that is wanted, in real time: the shard's queue, the thread that decides, the guard.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use bench_measure::Report;
use serde_json::json;
use weir_program::clock::now;
use weir_protect::config::{self, Context, document::Document};
use weir_protect::journal::{Entry, What};
use weir_protect::model::{Alive, Attack, Mode, Packet, Point, Sighting, Transport, Word};
use weir_protect::room::{Outlet, Room};
use weir_testbed::random::Source;

use super::averages::Average;
use super::{Scale, quantile};
use crate::programs::Programs;

/// Targets that are flooded at once.
const MANY: u32 = 1_000;
/// Packets a sample stands for; 25 times the threshold, at a sample each millisecond.
const FRAMES: f64 = 1_000.0;
const THRESHOLD: f64 = 40_000.0;
const AGENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
/// What anything may take.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn run(_: &Programs, scale: Scale, report: &mut Report) -> Result<()> {
    one_by_one(scale, report)?;
    at_once(report)
}

/// A room in automatic mode, without a journal and a speaker, and the shard's end of its queue.
struct Scene {
    _room: Room,
    outlet: Outlet,
    /// Of each route that is wanted: when, and ns since the sample that decided it had come.
    wanted: Receiver<(Instant, u64)>,
    random: Source,
}

impl Scene {
    fn start() -> Result<Self> {
        let text = r#"
            agents = ["10.0.0.1"]
            caps = { routes = 10000, prefixes = 10000, share = "100%" }
            [groups.web]
            networks = ["10.1.0.0/16"]
            thresholds.udp_flood.packets = "40k/s"
            [[groups.web.levels]]
            action = "drop"
            harm = "100%"
        "#;
        let document: Document = toml::from_str(text)?;
        let context = Context { file: None, at: "protect", interfaces: &|_| Vec::new(), serves: true };
        let mut settings = config::settings(&document, &context)?;
        settings.document.mode = Mode::Automatic;
        settings.groups.values_mut().for_each(|group| group.mode = Mode::Automatic);
        let (tell, wanted) = channel();
        let listener = move |entry: &Entry, attack: Option<&Attack>| {
            if let (What::Announced, Some(attack)) = (entry.what, attack) {
                // The scene may be over.
                let _ = tell.send((Instant::now(), now().saturating_sub(attack.detection.decided)));
            }
        };
        let (room, outlets) = Room::start(&Arc::new(settings), 1, None, Some(Box::new(listener)))?;
        let mut outlet = outlets.into_iter().next().context("a shard has an outlet")?;
        outlet.alive(Alive { time: now(), agent: AGENT });
        outlet.flush();
        Ok(Self { _room: room, outlet, wanted, random: Source(19) })
    }

    /// A packet to a host was sampled.
    fn sample(&mut self, host: u32) {
        let packet = Packet {
            source: Ipv4Addr::from(0xc612_0000 + self.random.bits() as u32 % 100_000).into(),
            destination: target(host).into(),
            protocol: 17,
            transport: Some(Transport::Udp { source: 123, destination: self.random.bits() as u16 }),
            fragment: false,
            length: 518,
            dscp: 0,
        };
        let header = &[0x45; 64];
        self.outlet.sample(&Sighting {
            time: now(),
            stream: 0,
            exposure: Some(1_000_000),
            word: Word::Good,
            point: point(),
            ingress: Some(true),
            frames: FRAMES,
            packet,
            header,
        });
    }
}

/// Floods one after another: how long the room takes after the sample that decides.
fn one_by_one(scale: Scale, report: &mut Report) -> Result<()> {
    let mut scene = Scene::start()?;
    let (mut whole, mut own) = (Vec::new(), Vec::new());
    for host in 0..scale.floods / 5 {
        let begin = Instant::now();
        let (at, after) = loop {
            scene.sample(host);
            scene.outlet.flush();
            match scene.wanted.recv_timeout(Duration::from_millis(1)) {
                Ok(found) => break found,
                Err(_) => anyhow::ensure!(begin.elapsed() < PATIENCE, "flood {host} was not decided"),
            }
        };
        whole.push((at - begin).as_secs_f64() * 1e3);
        own.push(after as f64 / 1e3);
    }
    whole.sort_by(f64::total_cmp);
    own.sort_by(f64::total_cmp);
    let [whole_p50, whole_p99] = [0.5, 0.99].map(|share| quantile(&whole, share));
    let [own_p50, own_p99] = [0.5, 0.99].map(|share| quantile(&own, share));
    println!("{} floods of 25 times the threshold, one after another:", whole.len());
    let goal = report.goal(
        "first sample of a flood to the route, p99",
        "<= 200 ms",
        &format!("{whole_p99:.1} ms"),
        whole_p99 <= 200.0,
    );
    println!("    first sample to a route that is wanted: median {whole_p50:.1} ms, 99 % {whole_p99:.1} ms {goal}");
    println!("    of that after the sample that decides: median {own_p50:.0} us, 99 % {own_p99:.0} us");
    let (average_p50, average_p99) = of_average(&mut scene.random);
    println!(
        "    an average of the last second, looked at each second: median {average_p50:.0} ms, 99 % {average_p99:.0} ms: {:.1} and {:.1} times as long",
        average_p50 / whole_p50,
        average_p99 / whole_p99
    );
    report.figure(json!({"scene": "react", "average_p50_ms": average_p50, "average_p99_ms": average_p99}));
    report.figure(json!({"scene": "react", "whole_p50_ms": whole_p50, "whole_p99_ms": whole_p99, "own_p50_us": own_p50, "own_p99_us": own_p99}));
    Ok(())
}

/// The same floods, each beginning at any time of a second, held against an average of one second; without what its program takes. In ms.
fn of_average(random: &mut Source) -> (f64, f64) {
    let mut delays: Vec<f64> = (0..1_000)
        .map(|_| {
            let (mut average, begin) = (Average::new(1, THRESHOLD), 1.0 + random.uniform());
            let mut number = 0.0;
            loop {
                // A sample each millisecond.
                number += 1.0;
                let now = ((begin + number / 1e3) * 1e9) as u64;
                if let Some(alarm) = average.sample(now, FRAMES) {
                    break alarm as f64 / 1e6 - begin * 1e3;
                }
            }
        })
        .collect();
    delays.sort_by(f64::total_cmp);
    (quantile(&delays, 0.5), quantile(&delays, 0.99))
}

/// Floods of many targets at once: how long until the last has its route.
fn at_once(report: &mut Report) -> Result<()> {
    let mut scene = Scene::start()?;
    let (begin, mut found, mut last) = (Instant::now(), 0, Instant::now());
    while found < MANY {
        (0..MANY).for_each(|host| scene.sample(host));
        scene.outlet.flush();
        // A shard that gets a million samples a second.
        sleep(Duration::from_millis(1));
        for (at, _) in scene.wanted.try_iter() {
            (found, last) = (found + 1, at);
        }
        anyhow::ensure!(begin.elapsed() < PATIENCE, "{found} of {MANY} were decided");
    }
    let whole = (last - begin).as_secs_f64() * 1e3;
    let goal =
        report.goal("1,000 targets at once, the last route", "<= 1 s", &format!("{whole:.0} ms"), whole <= 1000.0);
    println!(
        "{MANY} targets at once, about a million samples a second:\n    first sample to the last route: {whole:.0} ms {goal}"
    );
    report.figure(json!({"scene": "react", "targets": MANY, "whole_ms": whole}));
    Ok(())
}

fn point() -> Point {
    Point { agent: AGENT, index: 1 }
}

/// So far from one another that many are no carpet.
fn target(host: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a01_0001 + (host * 64) % 65_536 + host * 64 / 65_536)
}
