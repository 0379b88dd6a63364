//! What the tests of the program have seen, closed again: with all that was known, and with any part of it.
//!
//! `WEIR_RECORD=FOLDER cargo test -p weir --test weir -- loss::` records; files of it are in `rooms/loss/evidence`. With WEIR_RECORD
//! set the test below writes the ledgers anew that it finds.

use std::path::PathBuf;
use std::{env, fs};

use weir_trace::{Detail, Trace};

use super::closes;
use crate::account::book::Ledger;
use crate::account::evidence::{Evidence, SocketSeen};
use crate::account::receivers::ledgers;

type Recorded = (Evidence, Vec<SocketSeen>, Vec<Ledger>);

fn recorded() -> Vec<(PathBuf, Recorded)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/evidence");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|file| (file.clone(), serde_json::from_slice(&fs::read(&file).unwrap()).unwrap())).collect()
}

#[test]
fn what_was_seen_makes_the_same_ledgers() {
    let mut differ = Vec::new();
    for (file, (evidence, everybody, expected)) in recorded() {
        let found = ledgers(&evidence, &everybody);
        if env::var_os("WEIR_RECORD").is_some() {
            fs::write(&file, serde_json::to_vec(&(evidence, everybody, found)).unwrap()).unwrap();
            continue;
        }
        if found != expected {
            differ.push((file, found, expected));
        }
    }
    assert!(differ.is_empty(), "{differ:#?}");
}

/// What may be missing: privileges, kernels and other hosts keep back one or another.
const PARTS: [fn(&mut Evidence); 6] = [
    |evidence| {
        evidence.detail = evidence.detail.min(Some(Detail::Queues));
        let trace = std::mem::take(&mut evidence.trace);
        let (arrivals, departures, sends) = (Vec::new(), Vec::new(), Vec::new());
        evidence.trace = Trace { arrivals, departures, sends, ..trace };
    },
    |evidence| {
        evidence.detail = evidence.detail.min(Some(Detail::Drops));
        evidence.trace = Trace { drops: std::mem::take(&mut evidence.trace.drops), ..Trace::default() };
    },
    |evidence| (evidence.detail, evidence.trace) = (None, Trace::default()),
    |evidence| evidence.sent = None,
    |evidence| evidence.received = None,
    |evidence| evidence.namespaces.iter_mut().for_each(|namespace| namespace.losses.clear()),
];

/// Less is said, and each ledger closes all the same.
#[test]
fn whatever_is_not_known_the_ledgers_close() {
    for (file, (evidence, everybody, whole)) in recorded() {
        for missing in 0..1 << PARTS.len() {
            let mut less = evidence.clone();
            PARTS.iter().enumerate().filter(|(part, _)| missing >> part & 1 == 1).for_each(|(_, part)| part(&mut less));
            for ledger in ledgers(&less, &everybody) {
                let told = format!("{} without {missing:06b}: {ledger:#?}", file.display());
                assert!(closes(&ledger), "{told}");
                assert!(ledger.places.iter().all(|entry| entry.datagrams > 0), "{told}");
                // Without a receiver, what became of it may not even be known to be unknown; while it moves, counters tell of other
                // instants.
                let is_known = evidence.moving == 0 && ledger.receiver.is_some();
                let same = |full: &&Ledger| is_known && full.receiver == ledger.receiver;
                let Some(full) = whole.iter().find(same) else { continue };
                // What the kernel itself took, no program has read.
                let is_same = |told: Option<u64>, known: Option<u64>| told.unwrap_or(0) == 0 || told == known;
                assert!(is_same(ledger.arrived, full.arrived), "{told}");
                // Without queues joined datagrams are read as one.
                let joined = evidence.trace.sockets.iter().any(|socket| socket.read_datagrams != Some(socket.reads));
                assert!(joined || is_same(ledger.received, full.received), "{told}");
            }
        }
    }
}
