//! What speaker and router tell each other, captured on the router and read by tshark once the capture has ended.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use weir_testbed::{Started, program};

use crate::network::{Network, spawn, until};

/// A capture that goes on.
pub(crate) struct Capture {
    tcpdump: Started,
    tshark: PathBuf,
    file: PathBuf,
}

impl Network {
    #[track_caller]
    pub(crate) fn capture(&self) -> Option<Capture> {
        let (tcpdump, tshark) = (program("tcpdump")?, program("tshark")?);
        let file = self.folder.path().join("bgp.pcap");
        let mut command = Command::new(tcpdump);
        command.args(["-i", "speaker", "-n", "-U", "--immediate-mode", "-Z", "root", "-w"]);
        command.arg(&file).args(["port", "179"]);
        let tcpdump = spawn(&self.router, command);
        // It writes the head when it listens.
        until("a capture", || fs::metadata(&file).is_ok_and(|file| file.len() > 0));
        Some(Capture { tcpdump, tshark, file })
    }
}

impl Capture {
    /// Ends it when these bytes are in it, and all that came before them; tshark's reading.
    pub(crate) fn end(mut self, last: &[u8]) -> Reading {
        until("the last message in the capture", || {
            fs::read(&self.file).unwrap().windows(last.len()).any(|bytes| bytes == last)
        });
        self.tcpdump.end();
        Reading { tshark: self.tshark, file: self.file }
    }
}

/// A capture that has ended.
pub(crate) struct Reading {
    tshark: PathBuf,
    file: PathBuf,
}

impl Reading {
    /// What tshark says of it.
    pub(crate) fn read(&self, arguments: &[&str]) -> Vec<u8> {
        let mut command = Command::new(&self.tshark);
        let output = command.arg("-n").arg("-r").arg(&self.file).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// For how long the router was without a route of the speaker's from its first announcement on, as RFC 4271 and RFC 4724 have it
    /// of what the speaker says, in pieces.
    pub(crate) fn absences(&self, prefix: &str) -> Vec<Duration> {
        let fields = [
            "frame.time_epoch",
            "ip.src",
            "tcp.flags.fin",
            "tcp.flags.reset",
            "bgp.type",
            "bgp.length",
            "bgp.nlri_prefix",
            "bgp.withdrawn_prefix",
            "bgp.cap.gr.afi",
            "bgp.cap.gr.safi",
            "bgp.cap.gr.flag.pfs",
        ];
        let mut arguments = vec!["-T", "fields", "-E", "separator=;", "-E", "aggregator=,"];
        fields.iter().for_each(|field| arguments.extend(["-e", field]));
        let text = String::from_utf8(self.read(&arguments)).unwrap();
        let mut view = View::default();
        for line in text.lines() {
            let columns: Vec<Vec<&str>> =
                line.split(';').map(|column| column.split(',').filter(|value| !value.is_empty()).collect()).collect();
            let [time, from, fin, reset, types, lengths, announced, withdrawn, afis, safis, forwarding] = &columns[..]
            else {
                panic!("{line}")
            };
            let is_set = |flags: &[&str]| flags.iter().any(|flag| ["1", "True"].contains(flag));
            let now = time[0].parse().unwrap();
            if is_set(fin) || is_set(reset) || types.contains(&"3") {
                view.ended(now);
            }
            if from[..] != ["10.9.0.1"] {
                continue;
            }
            if types.contains(&"1") {
                let families = afis.iter().zip(safis).zip(forwarding);
                let of = families.into_iter().find(|((afi, safi), _)| (**afi, **safi) == ("1", "1"));
                view.opened(now, of.is_some(), of.is_some_and(|(_, flag)| is_set(&[flag])));
            }
            if announced.contains(&prefix) {
                view.announced(now);
            }
            if withdrawn.contains(&prefix) {
                view.withdrawn(now);
            }
            // An UPDATE of nothing (RFC 4724, section 2): of IPv4 unicast, as that of others has an attribute.
            if types.iter().zip(lengths).any(|pair| pair == (&"2", &"23")) {
                view.complete(now);
            }
        }
        view.absences
    }
}

/// One route, as a neighbour has it that keeps routes while a speaker is away, if that has asked for it.
#[derive(Debug, Default)]
struct View {
    is_there: bool,
    /// It is of the session before.
    is_stale: bool,
    is_kept: bool,
    missed_since: Option<f64>,
    absences: Vec<Duration>,
}

impl View {
    fn opened(&mut self, now: f64, is_kept: bool, has_forwarded: bool) {
        self.is_kept = is_kept;
        if self.is_stale && !has_forwarded {
            self.withdrawn(now);
        }
    }

    fn ended(&mut self, now: f64) {
        if self.is_kept {
            self.is_stale = self.is_there;
        } else {
            self.withdrawn(now);
        }
    }

    fn complete(&mut self, now: f64) {
        if self.is_stale {
            self.withdrawn(now);
        }
    }

    fn announced(&mut self, now: f64) {
        (self.is_there, self.is_stale) = (true, false);
        if let Some(since) = self.missed_since.take() {
            self.absences.push(Duration::from_secs_f64(now - since));
        }
    }

    fn withdrawn(&mut self, now: f64) {
        if std::mem::take(&mut self.is_there) {
            self.missed_since = Some(now);
        }
        self.is_stale = false;
    }
}

/// As the RFC has it, by hand.
#[test]
fn absences_are_counted_as_a_router_has_them() {
    let absences = |keeps: bool, order: &[&str]| {
        let mut view = View::default();
        view.opened(0.0, keeps, false);
        for (number, what) in order.iter().enumerate() {
            let now = number as f64;
            match *what {
                "announced" => view.announced(now),
                "ended" => view.ended(now),
                "opened" => view.opened(now, keeps, true),
                "opened, nothing kept" => view.opened(now, keeps, false),
                "complete" => view.complete(now),
                _ => view.withdrawn(now),
            }
        }
        view.absences.iter().map(Duration::as_secs).collect::<Vec<_>>()
    };
    let kept = ["announced", "complete", "ended", "opened", "announced", "complete"];
    assert_eq!(absences(true, &kept), [0; 0]);
    assert_eq!(absences(false, &kept), [2]);
    assert_eq!(absences(true, &["announced", "ended", "opened", "complete", "idle", "announced"]), [2]);
    assert_eq!(absences(true, &["announced", "ended", "opened, nothing kept", "announced"]), [1]);
    assert_eq!(absences(true, &["announced", "withdrawn"]), [0; 0], "it has not come back");
}

/// The bytes of a prefix as UPDATE messages have it: of one that is announced last.
pub(crate) fn nlri(address: [u8; 4]) -> Vec<u8> {
    [&[32], &address[..]].concat()
}
