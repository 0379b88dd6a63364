//! Messages that differ: due at random or in bursts, of several sizes, or as in a capture.
//!
//! The [`plan`] of a window is laid out before it begins, from the seed alone; a [`Planned`] source hands the sender each
//! message when it is due.

use std::num::NonZeroU32;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use nix::poll::{PollFd, PollFlags};
use rand_distr::{Distribution, Exp};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;
use weir_program::clock::{self, Nanos, nanos, now};
use weir_program::stop::Stop;
use weir_traffic::{Pacing, Source, Transport};
use weir_wire::ip::{Headers, UDP};
use weir_wire::pcap::{Reader, Step};
use weir_wire::probe::{BASE_LEN, EXTENDED_LEN, Extension, Kind, Probe};

use crate::endpoints::interval;
use crate::scenario::{Arrivals, Mode, Scenario, Traffic};
use crate::traces::check_bounded;

/// A message: its due time, ns from the start of sending, and its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Due time, ns from the start of sending.
    pub at: Nanos,
    /// Bytes.
    pub bytes: usize,
}

/// All messages of the window in order. `None`: all are alike, one per interval, and need no plan.
pub fn plan(scenario: &Scenario, traffic: &Traffic, seed: u64) -> Option<Vec<Due>> {
    if !is_planned(traffic) {
        return None;
    }
    let window = nanos(scenario.run.duration.duration());
    if traffic.replay.is_some() {
        return Some(again_and_again(&scenario.replayed, window));
    }
    let mut random = Pcg64::new(u128::from(seed), u128::from(STREAM));
    let every = interval(traffic).as_secs_f64() * 1e9;
    let gap = Exp::new(1.0 / every.max(1.0)).ok();
    let (mut active, mut number, mut plan) = (0.0, 0_u64, Vec::new());
    loop {
        active = match (traffic.arrivals, &gap) {
            (Arrivals::Poisson, Some(gap)) => active + gap.sample(&mut random),
            _ => number as f64 * every,
        };
        number += 1;
        let at = traffic.bursts.map_or(active as Nanos, |bursts| {
            let (on, off) = (nanos(bursts.on.duration()), nanos(bursts.off.duration()));
            active as Nanos / on * (on + off) + active as Nanos % on
        });
        if at >= window || plan.len() == MAX_PLAN {
            return Some(plan);
        }
        plan.push(Due { at, bytes: size(traffic, &mut random) });
    }
}

/// Bytes of the longest message.
pub fn longest(scenario: &Scenario, traffic: &Traffic) -> u64 {
    let sizes = traffic.sizes.iter().flatten().map(|size| size.bytes.bytes);
    let replayed = traffic.replay.iter().flat_map(|_| scenario.replayed.iter()).map(|due| due.bytes as u64);
    sizes.chain(replayed).max().unwrap_or(traffic.payload.bytes)
}

/// Whether messages differ.
pub fn is_planned(traffic: &Traffic) -> bool {
    traffic.arrivals != Arrivals::Constant
        || traffic.bursts.is_some()
        || traffic.sizes.is_some()
        || traffic.replay.is_some()
}

/// Refuses settings that cannot be planned. `key` names the traffic.
pub fn check(key: &str, scenario: &Scenario, traffic: &Traffic) -> Result<()> {
    if !is_planned(traffic) {
        return Ok(());
    }
    ensure!(
        traffic.mode == Mode::Messages && traffic.transport == Transport::Udp && traffic.batch.is_none(),
        "{key}: `arrivals`, `bursts`, `sizes` and `replay` need messages over udp without `batch`"
    );
    ensure!(
        traffic.pacing == Pacing::Schedule,
        "{key}.pacing: planned messages need a schedule. Set {key}.pacing = \"schedule\"."
    );
    if traffic.replay.is_some() {
        let alone = traffic.arrivals == Arrivals::Constant && traffic.bursts.is_none() && traffic.sizes.is_none();
        ensure!(alone, "{key}.replay: has its own times and sizes. Remove `arrivals`, `bursts` and `sizes`.");
        return Ok(());
    }
    if let Some(bursts) = traffic.bursts {
        ensure!(!bursts.on.duration().is_zero(), "{key}.bursts: `on` must be above 0");
    }
    let messages = scenario.run.duration.duration().as_secs_f64() / interval(traffic).as_secs_f64().max(1e-9);
    ensure!(messages < MAX_PLAN as f64, "{key}.interval: {messages:.0} messages cannot be planned, max {MAX_PLAN}");
    if let Some(sizes) = &traffic.sizes {
        let all: f64 = sizes.iter().map(|size| size.share.fraction()).sum();
        ensure!((all - 1.0).abs() < 1e-6, "{key}.sizes: the shares add up to {:.4} %, not 100 %", all * 100.0);
        for size in sizes {
            let fits = (BASE_LEN as u64..=LONGEST).contains(&size.bytes.bytes);
            ensure!(fits, "{key}.sizes: a message of {}: must be {BASE_LEN} to {LONGEST} bytes", size.bytes);
        }
    }
    Ok(())
}

/// The UDP datagrams of a capture, from the first on, as messages; short ones are padded to our header's length.
///
/// # Errors
/// The file cannot be read, is no capture, or has no datagrams.
pub fn read_capture(file: &Path) -> Result<Arc<[Due]>> {
    let doing = || format!("read capture {}", file.display());
    check_bounded(file, LONGEST_CAPTURE).with_context(doing)?;
    let bytes = std::fs::read(file).with_context(doing)?;
    let (mut reader, mut from, mut found) = (Reader::new(), 0, Vec::new());
    let mut begin = None;
    loop {
        match reader.step(&bytes[from..]).with_context(doing)? {
            Step::Need(_) => break,
            Step::Used(used, packet) => {
                from += used;
                let Some((packet, stamp)) = packet.and_then(|packet| Some((packet, packet.stamp?))) else { continue };
                let Ok(ip) = packet.link.ip(packet.bytes) else { continue };
                let Ok(headers) = Headers::parse_snapshot(ip) else { continue };
                if headers.protocol != UDP || headers.offset > 0 {
                    continue;
                }
                let payload = headers.length.saturating_sub(headers.transport + UDP_HEADER);
                let at = stamp.saturating_sub(*begin.get_or_insert(stamp));
                found.push(Due { at, bytes: payload.clamp(BASE_LEN, LONGEST as usize) });
                if found.len() == MAX_PLAN {
                    break;
                }
            }
        }
    }
    if found.is_empty() {
        bail!("{}: no UDP datagrams with timestamps", doing());
    }
    found.sort_by_key(|due| due.at);
    Ok(found.into())
}

/// A capture in a loop: after its last datagram comes the mean gap.
fn again_and_again(capture: &[Due], window: Nanos) -> Vec<Due> {
    let Some(last) = capture.last() else { return Vec::new() };
    let round = (last.at + last.at / (capture.len() as u64 - 1).max(1)).max(MILLISECOND);
    let rounds = (0..).map(|number: u64| number.saturating_mul(round)).take_while(|begin| *begin < window);
    let all = rounds.flat_map(|begin| capture.iter().map(move |due| Due { at: begin + due.at, ..*due }));
    all.take_while(|due| due.at < window).take(MAX_PLAN).collect()
}

fn size(traffic: &Traffic, random: &mut Pcg64) -> usize {
    let Some(sizes) = &traffic.sizes else { return traffic.payload.bytes as usize };
    let mut drawn = random.next_u64() as f64 / u64::MAX as f64;
    let chosen = sizes.iter().find(|size| {
        drawn -= size.share.fraction();
        drawn <= 0.0
    });
    chosen.or(sizes.last()).map_or(traffic.payload.bytes, |size| size.bytes.bytes) as usize
}

/// Creates each message of a plan when it is due.
pub struct Planned<'a> {
    plan: std::vec::IntoIter<Due>,
    /// When the first message was requested: time 0 of the plan.
    begin: Option<Nanos>,
    session: u16,
    /// Messages sent.
    sent: u32,
    bytes: Vec<u8>,
    stop: &'a Stop,
}

impl<'a> Planned<'a> {
    /// A source of these messages, until the stop.
    pub fn new(plan: Vec<Due>, session: u16, stop: &'a Stop) -> Self {
        let bytes = vec![0; plan.iter().map(|due| due.bytes).max().unwrap_or(0).max(BASE_LEN)];
        Planned { plan: plan.into_iter(), begin: None, session, sent: 0, bytes, stop }
    }
}

impl Source for Planned<'_> {
    fn next(&mut self) -> Option<(Nanos, &[u8])> {
        let due = self.plan.next()?;
        let intended = *self.begin.get_or_insert_with(now) + due.at;
        // The message carries its send time: it is created no sooner.
        while now() < intended && !self.stop.is_set() {
            clock::wait(&mut [PollFd::new(self.stop.as_fd(), PollFlags::POLLIN)], Some(intended));
        }
        // There is one sender per session.
        let clock = clock::id().map_or(0, NonZeroU32::get);
        let extension = Extension { intended, clock, incarnation: 0, length: due.bytes as u32 };
        let probe = Probe {
            kind: Kind::Message,
            session: self.session,
            sequence: self.sent,
            sent: now(),
            extension: (due.bytes >= EXTENDED_LEN).then_some(extension),
        };
        let message = &mut self.bytes[..due.bytes];
        // The check ensures room for the header.
        let _ = probe.write(message);
        Some((due.at, message))
    }

    fn sent(&mut self) {
        self.sent = self.sent.wrapping_add(1);
    }
}

/// Distinguishes this sequence of random numbers from others of the seed.
const STREAM: u64 = 0x6172_7269_7661_6c73;

/// Max messages of a window: 64 MiB.
const MAX_PLAN: usize = 1 << 22;

/// Max size of a capture that is replayed, MiB.
const LONGEST_CAPTURE: u64 = 4096;

/// Max bytes of a datagram over IPv4.
const LONGEST: u64 = 65_507;

const UDP_HEADER: usize = 8;
const MILLISECOND: Nanos = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::Sweep;

    /// The plan of 10 s of messages of 100 bytes each 10 ms, with these keys.
    fn planned(set: &[(&str, &str)]) -> Vec<Due> {
        let (_, text) = Scenario::find("telemetry").unwrap();
        let fixed = [
            ("run.duration", "10s"),
            ("path.loss", "0%"),
            ("traffic.transport", "udp"),
            ("traffic.pacing", "schedule"),
            ("traffic.payload", "100B"),
        ];
        let set: Vec<_> = fixed.iter().chain(set).map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let sweep = Sweep::new("telemetry.toml", &text, &set).unwrap();
        sweep.check().unwrap();
        let scenario = sweep.scenario();
        plan(scenario, &scenario.traffic, 1).unwrap()
    }

    #[test]
    fn poisson_arrivals_have_exponential_gaps_and_repeat() {
        let poisson = [("traffic.arrivals", "poisson"), ("traffic.interval", "1ms")];
        let plan = planned(&poisson);
        assert_eq!(planned(&poisson), plan);
        // 10,000 expected, with a deviation of 100; five of them.
        assert!((9_500..10_500).contains(&plan.len()), "{}", plan.len());
        let gaps: Vec<f64> = plan.windows(2).map(|pair| (pair[1].at - pair[0].at) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // An exponential distribution deviates by its mean; of a sample of 10,000 to within some percent.
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.06, "{mean} {variance}");
    }

    #[test]
    fn bursts_are_silent_in_between_and_sizes_have_their_shares() {
        let plan = planned(&[
            ("traffic.bursts", "{ on = \"100ms\", off = \"900ms\" }"),
            ("traffic.sizes", "[[{ bytes = \"64B\", share = \"75%\" }, { bytes = \"1400B\", share = \"25%\" }]]"),
            ("traffic.interval", "1ms"),
        ]);
        assert_eq!(plan.len(), 1000, "100 in each of 10 seconds");
        assert!(plan.iter().all(|due| due.at % 1_000_000_000 < 100_000_000));
        let small = plan.iter().filter(|due| due.bytes == 64).count();
        // 750 with a deviation of 13.7; five of them.
        assert!((681..820).contains(&small) && plan.iter().all(|due| [64, 1400].contains(&due.bytes)), "{small}");
    }

    #[test]
    fn a_capture_is_sent_again_as_it_was() {
        let capture = [(0, 100), (300, 20), (600, 1000)].map(|(ms, bytes)| Due { at: ms * MILLISECOND, bytes });
        let plan = again_and_again(&capture, 1_000 * MILLISECOND);
        let times: Vec<_> = plan.iter().map(|due| (due.at / MILLISECOND, due.bytes)).collect();
        assert_eq!(times, [(0, 100), (300, 20), (600, 1000), (900, 100)]);
        assert_eq!(again_and_again(&capture[..1], 3 * MILLISECOND).len(), 3, "a single one each millisecond");
    }

    #[test]
    fn what_cannot_be_planned_is_said() {
        let (_, text) = Scenario::find("telemetry").unwrap();
        for (set, message) in [
            (&[("traffic.arrivals", "poisson"), ("traffic.transport", "tcp")][..], "need messages over udp"),
            (&[("traffic.arrivals", "poisson"), ("traffic.pacing", "sleep")], "traffic.pacing: planned messages need"),
            (
                &[("traffic.sizes", "[[{ bytes = \"64B\", share = \"50%\" }]]")],
                "traffic.sizes: the shares add up to 50.0000 %",
            ),
            (&[("traffic.sizes", "[[{ bytes = \"6B\", share = \"100%\" }]]")], "traffic.sizes: a message of 6B"),
            (&[("traffic.bursts", "{ on = \"0s\", off = \"1s\" }")], "traffic.bursts: `on` must be above 0"),
        ] {
            let fixed = [("traffic.transport", "udp"), ("traffic.pacing", "schedule")];
            let set: Vec<_> =
                fixed.iter().chain(set).map(|(key, value)| (key.to_string(), value.to_string())).collect();
            let said = Sweep::new("t.toml", &text, &set).and_then(|sweep| sweep.check()).unwrap_err();
            assert!(format!("{said:#}").contains(message), "{said:#}");
        }
    }
}
