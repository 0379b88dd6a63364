//! What no file has, files that overlap or stand in another order, and times at which nothing was recorded.

use std::collections::BTreeSet;

use weir_dgram::{Options, Socket};
use weir_program::stop::Stop;

use super::export::{Choice, Exported};
use super::*;
use crate::archive::replay;

/// A file of session 7 with blocks of 100 samples from these indices on, a chunk each; chunk by chunk its ends.
fn written(path: &Path, firsts: &[u64]) -> Vec<u64> {
    let mut archive = ArchiveFile::create(path).unwrap();
    let (head, mut ends) = (head(7), Vec::new());
    for &first in firsts {
        archive.block(&head, &block(0, first, Values::Samples(Element::F32, &samples(first)))).unwrap();
        archive.end_chunk().unwrap();
        ends.push(archive.written());
    }
    archive.finish().unwrap();
    ends
}

/// Files with these blocks each, `a.mcap` and so on.
fn archive(dir: &TempDir, files: &[&[u64]]) -> Vec<PathBuf> {
    let name = |letter: u8| dir.path().join(format!("{}.mcap", char::from(letter)));
    let paths: Vec<PathBuf> = (b'a'..).take(files.len()).map(name).collect();
    for (path, firsts) in paths.iter().zip(files) {
        written(path, firsts);
    }
    paths
}

fn table(dir: &TempDir, files: &[PathBuf], choice: &Choice) -> anyhow::Result<(Exported, String)> {
    let out = dir.path().join("out");
    let exported = export::export(files, choice, fs::File::create(&out).unwrap())?;
    Ok((exported, String::from_utf8_lossy(&fs::read(&out).unwrap()).into_owned()))
}

fn csv(dir: &TempDir, files: &[PathBuf]) -> (Exported, String) {
    table(dir, files, &Choice::default()).unwrap()
}

/// A recorder that was down in the middle of a session, or a file that was left out.
#[test]
fn what_no_file_has_is_a_gap_whatever_the_order_of_files() {
    let dir = TempDir::new().unwrap();
    let files = archive(&dir, &[&[0, 100], &[500, 600], &[1000]]);
    let (exported, text) = csv(&dir, &files);
    assert_eq!((exported.rows, exported.samples, exported.missing), (502, 1100, 600));
    let lines: Vec<&str> = text.lines().collect();
    let of = "magnetics,full,coil 0,T,0000000000000007";
    assert_eq!(lines[201], format!("1700000000200000000,{of},200,,,,300,server,"));
    assert_eq!(lines[402], format!("1700000000700000000,{of},700,,,,300,server,"));
    let [a, b, c]: [PathBuf; 3] = files.try_into().unwrap();
    for order in [[&b, &a, &c], [&c, &b, &a], [&c, &a, &b]] {
        let (again, other) = csv(&dir, &order.map(PathBuf::clone));
        assert_eq!((again.missing, other), (600, text.clone()), "{order:?}");
    }
    // A choice of times that has no hole in it has none in its table.
    let choice = Choice { until: Some(1_700_000_000_200_000_000), ..Choice::default() };
    let (first, _) = table(&dir, &[a, b], &choice).unwrap();
    assert_eq!((first.samples, first.missing), (200, 0));
}

#[test]
fn a_replay_has_the_same_gap_and_each_file_once() {
    let dir = TempDir::new().unwrap();
    let mut files = archive(&dir, &[&[0, 100], &[150, 500, 600]]);
    files.push(files[1].clone());
    files.reverse();
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = receiver.local_addr().unwrap();
    let socket = Socket::connect(None, to, &Options::default()).unwrap();
    let settings = replay::Settings { files: files.clone(), speed: 0.0, keep_times: true, to };
    let replayed = replay::replay(&settings, &socket, &Stop::new().unwrap()).unwrap();
    assert_eq!((replayed.samples, replayed.missing), (450, 250));
    let (exported, _) = csv(&dir, &files);
    assert_eq!((exported.samples, exported.missing), (700, 250));
}

/// Two recorders of one session: each sample is there once, and is missing only where both lack it.
#[test]
fn files_that_overlap_are_taken_once() {
    let dir = TempDir::new().unwrap();
    let mut files = archive(&dir, &[&[0, 100, 200], &[50, 150, 250]]);
    let gaps = dir.path().join("gaps.mcap");
    let mut archive = ArchiveFile::create(&gaps).unwrap();
    let gap = Values::Gap(Gap { samples: 400, cause: Cause::Network });
    archive.block(&head(7), &block(0, 0, gap)).unwrap();
    archive.finish().unwrap();
    files.insert(0, gaps);
    let (exported, text) = csv(&dir, &files);
    assert_eq!((exported.rows, exported.samples, exported.missing), (351, 400, 50));
    let indices: Vec<u64> = text.lines().skip(1).map(|row| row.split(',').nth(6).unwrap().parse().unwrap()).collect();
    assert_eq!(indices, (0..=350).collect::<Vec<_>>());
    let other = text.lines().find(|row| row.contains(",network,")).unwrap();
    assert!(other.contains(",350,,,,50,network,"), "{other}");
}

/// What one recorder lacks and the other has stands where it belongs, whatever they have and in whatever order they are named.
#[test]
fn what_another_file_has_stands_where_it_belongs() {
    let dir = TempDir::new().unwrap();
    let files = archive(&dir, &[&[0, 100, 700], &[200, 300, 600], &[250, 400, 500, 600]]);
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let (exported, text) = csv(&dir, &order.map(|at: usize| files[at].clone()));
        assert_eq!((exported.samples, exported.missing), (800, 0));
        let indices = text.lines().skip(1).map(|row| row.split(',').nth(6).unwrap().parse().unwrap());
        assert_eq!(indices.collect::<Vec<u64>>(), (0..800).collect::<Vec<_>>(), "{order:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Of two stations whose clocks are an hour apart, the second of which comes later in some files; some blocks are gaps.
    #[test]
    fn rows_follow_on_one_another_whatever_files_have(
        sets in prop::collection::vec((prop::collection::btree_set((0..12_u64, 0..2_u64, 0..4), 0..16), 0..8_u64), 1..5),
    ) {
        let dir = TempDir::new().unwrap();
        let (mut files, mut has, mut due) = (Vec::new(), [BTreeSet::new(), BTreeSet::new()], [(u64::MAX, 0); 2]);
        for ((set, lag), number) in sets.iter().zip(0_u64..) {
            files.push(dir.path().join(format!("{number}.mcap")));
            let mut archive = ArchiveFile::create(files.last().unwrap()).unwrap();
            let (heads, mut blocks) = ([0, 1].map(head), set.iter().collect::<Vec<_>>());
            blocks.sort_by_key(|&&(at, session, _)| at + session * lag);
            blocks.dedup_by_key(|&mut &(at, session, _)| (at, session));
            for &(at, session, kind) in blocks {
                // Blocks of one file begin in the middle of those of another.
                let first = at * 100 + number * 30;
                let (values, gap) = (samples(first), Gap { samples: 100, cause: Cause::Network });
                let values = if kind == 0 { Values::Gap(gap) } else { Values::Samples(Element::F32, &values) };
                let mut block = block(0, first, values);
                block.time += session.cast_signed() * 3_600_000_000_000;
                archive.block(&heads[session as usize], &block).unwrap();
                let (begin, end) = &mut due[session as usize];
                (*begin, *end) = ((*begin).min(first), (*end).max(first + 100));
                has[session as usize].extend((first..first + 100).filter(|_| kind != 0));
            }
            archive.finish().unwrap();
        }
        let due: Vec<_> = due.into_iter().map(|(begin, end)| if end == 0 { (0, 0) } else { (begin, end) }).collect();
        let all: u64 = due.iter().map(|(begin, end)| end - begin).sum();
        prop_assume!(all > 0);
        let (exported, text) = csv(&dir, &files);
        let missing = all - has.iter().map(|has| has.len() as u64).sum::<u64>();
        prop_assert_eq!((exported.samples, exported.missing), (all, missing));
        let mut next: Vec<u64> = due.iter().map(|(begin, _)| *begin).collect();
        for row in text.lines().skip(1) {
            let row: Vec<&str> = row.split(',').collect();
            let next = &mut next[row[5].parse::<usize>().unwrap()];
            prop_assert_eq!(row[6].parse::<u64>().unwrap(), *next);
            *next += row[10].parse::<u64>().unwrap();
        }
        prop_assert_eq!(next, due.iter().map(|(_, end)| *end).collect::<Vec<_>>());
    }
}

#[test]
fn a_damaged_chunk_is_a_gap_where_a_later_file_goes_on() {
    let dir = TempDir::new().unwrap();
    let (damaged, later) = (dir.path().join("a.mcap"), dir.path().join("b.mcap"));
    let ends = written(&damaged, &[0, 100, 200, 300]);
    written(&later, &[400]);
    let mut bytes = fs::read(&damaged).unwrap();
    bytes[(ends[0] + ends[1]) as usize / 2] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let (exported, text) = csv(&dir, &[damaged, later]);
    assert_eq!((exported.samples, exported.missing, exported.damaged.len()), (500, 300, 1));
    assert!(text.lines().nth(101).unwrap().contains(",100,,,,300,server,"), "{text}");
}

#[test]
fn a_time_at_which_nothing_was_recorded_is_told_as_that() {
    let dir = TempDir::new().unwrap();
    let files = archive(&dir, &[&[0], &[100]]);
    let late = Choice { from: Some(i64::MAX), ..Choice::default() };
    assert_eq!(
        table(&dir, &files, &late).unwrap_err().to_string(),
        "--from, --until: nothing was recorded then (what was chosen is from 2023-11-14T22:13:20.000Z up to \
         2023-11-14T22:13:20.200Z)"
    );
    let (one, other) = (dir.path().join("one.mcap"), dir.path().join("other.mcap"));
    for path in [&one, &other] {
        written(path, &[]);
    }
    let nothing = |files: &[PathBuf]| table(&dir, files, &Choice::default()).unwrap_err().to_string();
    assert_eq!(nothing(std::slice::from_ref(&one)), format!("{}: no signal in it", one.display()));
    assert_eq!(nothing(&[one, other]), "no signal in any of the 2 files");
}

/// Of a gap that begins before the time that is chosen, or ends behind it, the part counts that is within.
#[test]
fn a_gap_counts_as_far_as_it_is_within_the_time_that_is_chosen() {
    let dir = TempDir::new().unwrap();
    let files = archive(&dir, &[&[0, 100], &[500]]);
    let at = |index: i64| 1_700_000_000_000_000_000 + index * 1_000_000;
    for (from, until, rows, missing, first) in
        [(300, 550, 51, 200, 300), (150, 300, 51, 100, 150), (250, 300, 1, 50, 250), (0, 200, 200, 0, 0)]
    {
        let choice = Choice { from: Some(at(from)), until: Some(at(until)), ..Choice::default() };
        let (exported, text) = table(&dir, &files, &choice).unwrap();
        assert_eq!((exported.rows, exported.missing), (rows, missing), "{from} to {until}");
        let begin = format!("{},magnetics,full,coil 0,T,0000000000000007,{first},", at(from));
        assert!(text.lines().nth(1).unwrap().starts_with(&begin), "{text}");
    }
}
