//! Reports of the network about what was sent (ICMP), and which of them are believed.
//!
//! Anybody may send an ICMP message that names this socket's ports: they can be guessed. What was sent cannot, mostly. So a
//! report counts if it quotes the first bytes of a datagram that this worker has sent there since the first report of the last
//! minute. The first one is never a proof; where the port is closed indeed, the next one is.

use std::hash::{BuildHasher, RandomState};
use std::iter;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use nix::libc;
use weir_dgram::{Origin, QUOTED, Reported, Socket};

use super::join::Run;
use crate::health::Evidence;

/// What is known of the reports about what a lane sends.
#[derive(Default)]
pub(super) struct Reports {
    memory: Option<Box<Memory>>,
}

/// What was sent since a report came.
struct Memory {
    last_report: Instant,
    hasher: RandomState,
    /// Hashes of what a report would quote of each datagram, at the place that a part of the hash says; 0: none.
    sent: Vec<u64>,
}

/// What reports have told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    /// Messages of the network.
    pub(super) reports: u64,
    /// Of them, those that quote nothing that was sent, though it was remembered.
    pub(super) unproven: u64,
    /// What is to be thought of the destination now.
    pub(super) evidence: Option<Evidence>,
}

impl Reports {
    /// Whether what is sent is remembered: for a minute after a report.
    pub(super) fn has_memory(&mut self) -> bool {
        if self.memory.as_ref().is_some_and(|memory| memory.last_report.elapsed() > LASTS) {
            self.memory = None;
        }
        self.memory.is_some()
    }

    /// Remembers what is about to be sent, where it is worth it.
    pub(super) fn remember<'a>(&mut self, runs: impl Iterator<Item = Run<'a>>) {
        let Some(memory) = &mut self.memory else { return };
        for Run { head, body, .. } in runs.flat_map(|run| run.singles()) {
            let (mut quoted, mut length) = ([0; QUOTED], 0);
            for (to, from) in quoted.iter_mut().zip(head.iter().chain(body)) {
                *to = *from;
                length += 1;
            }
            memory.add(&quoted[..length]);
        }
    }

    /// Reads what has come about a socket.
    pub(super) fn hear(&mut self, socket: &Socket) -> Heard {
        let mut heard = Heard::default();
        // Bounded, for whoever sends them may do so faster than we read.
        let reports = iter::from_fn(|| socket.next_error().ok().flatten()).take(AT_ONCE);
        let own = socket.local_addr().ip();
        for report in reports.filter(|report| report.origin != Origin::Local) {
            heard.reports += 1;
            self.take(&report, own, &mut heard);
        }
        heard
    }

    fn take(&mut self, report: &Reported, own: IpAddr, heard: &mut Heard) {
        let to = report.destination.map(|to| to.ip());
        let evidence = match report.errno {
            // The host itself says so: a router has no ports there.
            libc::ECONNREFUSED if report.offender == to => Some(Evidence::PortUnreachable),
            // This machine says it of next hops, which are followed otherwise.
            libc::EHOSTUNREACH | libc::ENETUNREACH if report.offender == Some(own) => return,
            libc::EHOSTUNREACH | libc::ENETUNREACH => Some(Evidence::HostUnreachable),
            libc::ECONNREFUSED => None,
            // Too long, a hop limit: nothing about life.
            _ => return,
        };
        let Some(memory) = &mut self.memory else {
            self.memory = Some(Box::new(Memory::new()));
            return;
        };
        memory.last_report = Instant::now();
        if memory.has(&report.quoted) && evidence.is_some() {
            heard.evidence = evidence;
        } else {
            heard.unproven += 1;
        }
    }
}

impl Heard {
    /// What two sockets have heard.
    pub(super) fn add(&mut self, other: Self) {
        self.reports += other.reports;
        self.unproven += other.unproven;
        self.evidence = other.evidence.or(self.evidence);
    }
}

impl Memory {
    fn new() -> Self {
        Self { last_report: Instant::now(), hasher: RandomState::new(), sent: vec![0; REMEMBERED] }
    }

    fn add(&mut self, quoted: &[u8]) {
        let hash = self.hash(quoted);
        self.sent[hash as usize % REMEMBERED] = hash;
    }

    /// Whether a quotation begins with a whole datagram that is remembered, or with the first bytes of a longer one. It may
    /// go on with the next: datagrams that left in one joined send are quoted as one where they were never cut apart
    /// (virtual links, this machine).
    fn has(&self, quoted: &[u8]) -> bool {
        // A quotation of nothing could be of anything.
        (1..=quoted.len()).rev().any(|length| {
            let hash = self.hash(&quoted[..length]);
            self.sent[hash as usize % REMEMBERED] == hash
        })
    }

    /// Never 0.
    fn hash(&self, quoted: &[u8]) -> u64 {
        self.hasher.hash_one(quoted) | 1 << 63
    }
}

/// Reports that are read at once.
const AT_ONCE: usize = 64;

/// Datagrams that are remembered: what is under way for 40 ms at 100,000 a second.
const REMEMBERED: usize = 4096;

/// For how long what is sent is remembered after a report: hosts send few (Linux one a second to each), and may have little
/// to report about.
const LASTS: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    fn report(errno: i32, offender: &str, quoted: &[u8]) -> Reported {
        Reported {
            errno,
            origin: Origin::Icmp,
            kind: 3,
            code: 3,
            info: 0,
            offender: Some(offender.parse().unwrap()),
            destination: Some("10.0.0.2:514".parse().unwrap()),
            quoted: quoted.to_vec(),
        }
    }

    fn run(body: &[u8]) -> Run<'_> {
        Run { body, ..Run::default() }
    }

    fn heard(reports: &mut Reports, report: &Reported) -> Heard {
        let mut heard = Heard::default();
        reports.take(report, OWN, &mut heard);
        heard
    }

    /// After a report that nothing was remembered for.
    fn doubting() -> Reports {
        let mut reports = Reports::default();
        assert!(!reports.has_memory());
        let first = report(libc::ECONNREFUSED, "10.0.0.2", b"sent before");
        assert_eq!(heard(&mut reports, &first), Heard::default(), "neither a proof nor forged");
        assert!(reports.has_memory());
        reports
    }

    #[test]
    fn only_a_report_that_quotes_what_was_sent_is_believed() {
        let mut reports = doubting();
        let long = [7; 1400];
        let proof = report(libc::ECONNREFUSED, "10.0.0.2", &long[..QUOTED]);
        assert_eq!(heard(&mut reports, &proof).evidence, None);
        reports.remember([run(&long), run(b"short")].into_iter());
        assert_eq!(heard(&mut reports, &proof).evidence, Some(Evidence::PortUnreachable));
        let forged = [
            report(libc::ECONNREFUSED, "10.0.0.2", b"guessed"),
            report(libc::ECONNREFUSED, "10.0.0.2", b""),
            report(libc::ECONNREFUSED, "10.0.0.2", &long[..8]),
            report(libc::ECONNREFUSED, "10.0.0.66", &long[..QUOTED]),
        ];
        for forged in forged {
            let heard = heard(&mut reports, &forged);
            assert_eq!((heard.evidence, heard.unproven), (None, 1), "{forged:?}");
        }
        let routed = report(libc::EHOSTUNREACH, "10.0.0.66", b"short");
        assert_eq!(heard(&mut reports, &routed).evidence, Some(Evidence::HostUnreachable));
        let own = report(libc::EHOSTUNREACH, "10.0.0.1", b"short");
        assert_eq!(heard(&mut reports, &own), Heard::default());
        reports.memory.as_mut().unwrap().last_report -= LASTS + Duration::from_secs(1);
        assert!(!reports.has_memory());
        assert_eq!(heard(&mut reports, &proof).evidence, None);
    }

    #[test]
    fn runs_are_remembered_as_their_datagrams_with_what_precedes_them() {
        let mut reports = doubting();
        let body = [[1; 100], [2; 100]].concat();
        reports.remember(iter::once(Run { body: &body, segment: std::num::NonZeroU16::new(100), ..Run::default() }));
        reports.remember(iter::once(Run { head: b"head", body: b"body", ..Run::default() }));
        for quoted in [&[1; QUOTED][..], &[2; QUOTED], b"headbody"] {
            let proof = report(libc::ECONNREFUSED, "10.0.0.2", quoted);
            assert_eq!(heard(&mut reports, &proof).evidence, Some(Evidence::PortUnreachable));
        }
    }

    /// A joined send that nobody cut apart is refused as one (a virtual link, where every report was taken for forged).
    #[test]
    fn a_report_may_quote_datagrams_of_a_joined_send_together() {
        let mut reports = doubting();
        let joined: Vec<u8> = (0..90).collect();
        reports.remember(iter::once(Run { body: &joined, segment: std::num::NonZeroU16::new(30), ..Run::default() }));
        for (from, proven) in [(0, true), (30, true), (60, true), (1, false), (45, false)] {
            let quoted = &joined[from..(from + QUOTED).min(joined.len())];
            let heard = heard(&mut reports, &report(libc::ECONNREFUSED, "10.0.0.2", quoted));
            assert_eq!(heard.evidence.is_some(), proven, "from byte {from}");
        }
    }
}
