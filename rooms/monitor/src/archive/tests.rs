//! What is written is read again: whole, broken off, and where the disk or the thread did not keep up.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tempfile::TempDir;
use weir_program::pulse::Pulses;
use weir_testbed::await_that;
use weir_wire::signal::{Block, Cause, Channel, Clock, Element, Gap, Rate, Values};

use super::file::ArchiveFile;
use super::schema::Message;
use super::{Damage, Head, Limits, Reading, Recorder, Settings, State, export};
use weir_signal::receive::{News, Sink, Stream};

mod holes;

fn stream(session: u64) -> Arc<Stream> {
    let source = "192.0.2.1:5110".parse().unwrap();
    Arc::new(Stream { session, station: "magnetics".into(), name: "full".into(), source, clock: Clock::default() })
}

fn channel(id: u16) -> Arc<Channel> {
    let limits = weir_wire::signal::Limits { high: Some(3.5), ..Default::default() };
    let (name, unit) = (format!("coil {id}"), "T".into());
    Arc::new(Channel { id, name, unit, limits, scale: 0.5, offset: 1.0, rate: Rate::hertz(1000), ..Channel::default() })
}

fn head(session: u64) -> Arc<Head> {
    Arc::new(Head::new(&stream(session), &channel(0)))
}

fn settings(directory: &Path) -> Settings {
    let limits = Limits { leave: 0, ..Limits::default() };
    Settings { directory: directory.into(), prefix: "weir".into(), limits }
}

/// Blocks of 100 samples that count on from `first`.
fn samples(first: u64) -> Vec<u8> {
    (first..first + 100).flat_map(|value| (value as f32).to_le_bytes()).collect()
}

fn block(channel: u16, first: u64, values: Values<'_>) -> Block<'_> {
    Block {
        channel,
        first,
        time: 1_700_000_000_000_000_000 + first as i64 * 1_000_000,
        rate: Rate::hertz(1000),
        values,
    }
}

/// Files of a directory, in the order of their names.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn read(path: &Path, mut look: impl FnMut(&Head, &Block<'_>)) -> io::Result<Option<Damage>> {
    let mut reading = Reading::open(path)?;
    while let Some((head, message)) = reading.read_block()? {
        look(&head, &message.block(head.channel.id).unwrap());
    }
    Ok(reading.damage)
}

/// By channel: samples, and gaps by cause. Whatever is there follows on what was there before.
#[derive(Debug, Default, PartialEq)]
struct Found {
    next: u64,
    samples: u64,
    gaps: BTreeMap<Cause, u64>,
}

fn find(files: &[PathBuf]) -> BTreeMap<(u64, u16), Found> {
    let mut found: BTreeMap<(u64, u16), Found> = BTreeMap::new();
    for file in files {
        let damage = read(file, |head, block| {
            let found = found.entry((head.session, head.channel.id)).or_default();
            assert_eq!(block.first, found.next, "{head:?}");
            found.next = block.end();
            match block.values {
                Values::Gap(gap) => *found.gaps.entry(gap.cause).or_default() += gap.samples,
                _ => {
                    assert!(block.each().zip(block.first..).all(|(value, index)| value == index as f64));
                    found.samples += block.samples();
                }
            }
        });
        assert!(damage.unwrap().is_none());
    }
    found
}

#[test]
fn what_came_is_there_in_files_cut_by_size() {
    let dir = TempDir::new().unwrap();
    let state = Arc::new(State::default());
    let settings = Settings { limits: Limits { cut_bytes: 1, leave: 0, ..Limits::default() }, ..settings(dir.path()) };
    let mut recorder = Recorder::start(&settings, state.clone(), Pulses::new().pulse("archive")).unwrap();
    let stream = stream(7);
    (0..3).for_each(|id| recorder.channel(&stream, &channel(id)));
    // 12 MB: some chunks, each a file of its own.
    for number in 0..10_000 {
        for id in 0..3 {
            let first = number * 200;
            recorder.block(&stream, &block(id, first, Values::Samples(Element::F32, &samples(first))));
            let gap = Gap { samples: 100, cause: Cause::Network };
            recorder.block(&stream, &block(id, first + 100, Values::Gap(gap)));
        }
        // The thread is to have the time that it needs.
        while !state.has_time() {
            std::thread::sleep(Duration::from_millis(1));
        }
        recorder.flush();
    }
    recorder.stream(&stream, News::Ended);
    recorder.finish();
    let ledger = state.ledger(true);
    assert!(ledger.closed, "{ledger:?}");
    assert_eq!(
        (ledger.kept.get(), ledger.missing.get(), ledger.overrun.get(), ledger.unkept.get()),
        (3_000_000, 3_000_000, 0, 0)
    );
    let files = files(dir.path());
    assert!(files.len() >= 3 && files.len() as u64 == ledger.files.get(), "{files:?}");
    assert_eq!(files.iter().map(|file| fs::metadata(file).unwrap().len()).sum::<u64>(), ledger.bytes.get());
    let found = find(&files);
    assert_eq!(found.len(), 3);
    for of in found.into_values() {
        assert_eq!(of, Found { next: 2_000_000, samples: 1_000_000, gaps: [(Cause::Network, 1_000_000)].into() });
    }
}

#[test]
fn what_the_thread_has_no_time_for_is_a_gap() {
    let dir = TempDir::new().unwrap();
    let state = Arc::new(State::default());
    let settings = Settings { limits: Limits { queue: 0, leave: 0, ..Limits::default() }, ..settings(dir.path()) };
    let mut recorder = Recorder::start(&settings, state.clone(), Pulses::new().pulse("archive")).unwrap();
    let stream = stream(7);
    recorder.channel(&stream, &channel(0));
    // Faster than any disk, until something is lost.
    let (begin, mut first) = (Instant::now(), 0);
    while state.ledger(false).overrun.get() == 0 {
        recorder.block(&stream, &block(0, first, Values::Samples(Element::F32, &samples(first))));
        first += 100;
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", state.ledger(false));
    }
    recorder.finish();
    let ledger = state.ledger(true);
    assert!(ledger.closed, "{ledger:?}");
    let found = &find(&files(dir.path()))[&(7, 0)];
    assert_eq!((found.next, found.samples), (first, ledger.kept.get()));
    assert_eq!(found.gaps, [(Cause::Server, ledger.overrun.get())].into());
}

#[test]
fn a_file_that_was_cut_off_is_read_up_to_its_last_whole_chunk() {
    let dir = TempDir::new().unwrap();
    let (whole, cut) = (dir.path().join("whole.mcap"), dir.path().join("cut.mcap"));
    let mut file = ArchiveFile::create(&whole).unwrap();
    let head = head(7);
    let mut ends = Vec::new();
    for first in (0..1000).step_by(100) {
        file.block(&head, &block(0, first, Values::Samples(Element::F32, &samples(first)))).unwrap();
        file.end_chunk().unwrap();
        ends.push(file.written());
    }
    file.finish().unwrap();
    let bytes = fs::read(&whole).unwrap();
    for length in (0..bytes.len()).step_by(97).chain(ends.iter().map(|&end| end as usize)) {
        fs::write(&cut, &bytes[..length]).unwrap();
        let mut samples = 0;
        let damage = read(&cut, |_, block| {
            samples += block.samples();
        });
        if length < 8 {
            assert!(damage.is_err() || damage.unwrap().is_some());
            continue;
        }
        // Indices of messages stand behind their chunk: it is whole without them.
        let chunks = ends.iter().filter(|&&end| end as usize <= length).count() as u64;
        assert!(samples == chunks * 100 || samples == (chunks + 1) * 100, "{length}: {samples}, {chunks}");
        assert!(damage.unwrap().is_some() || samples == 1000, "{length}");
    }
    // A byte that is another one is found, too.
    let mut wrong = bytes;
    let middle = (ends[4] + ends[5]) as usize / 2;
    wrong[middle] ^= 1;
    fs::write(&cut, wrong).unwrap();
    let mut samples = 0;
    let damage = read(&cut, |_, block| {
        samples += block.samples();
    });
    assert_eq!((samples, damage.unwrap().unwrap().error.contains("CRC")), (500, true));
}

#[test]
fn what_is_there_is_never_written_to() {
    let dir = TempDir::new().unwrap();
    let (there, link) = (dir.path().join("there.mcap"), dir.path().join("link.mcap"));
    fs::write(&there, b"another's").unwrap();
    symlink(dir.path().join("nowhere.mcap"), &link).unwrap();
    for path in [&there, &link] {
        let refused = ArchiveFile::create(path).err().unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
    }
    assert_eq!(fs::read(&there).unwrap(), b"another's");
    assert!(!dir.path().join("nowhere.mcap").exists());
}

/// As a shell leaves a pattern that fits nothing, or who forgets one.
#[test]
fn of_a_directory_it_is_told_which_files_to_name() {
    let dir = TempDir::new().unwrap();
    let told = || read(dir.path(), |_, _| {}).unwrap_err().to_string();
    assert_eq!(told(), "it is a directory without an archive (name files that weir monitor record wrote)");
    fs::write(dir.path().join("a.mcap"), b"").unwrap();
    assert_eq!(told(), format!("it is a directory (name the files in it: {}/*.mcap)", dir.path().display()));
}

#[test]
fn a_table_adds_up_to_what_was_sent() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("a.mcap");
    let mut archive = ArchiveFile::create(&file).unwrap();
    let head = head(7);
    let buckets: Vec<u8> = [-2_i16, 8, 1, 3].iter().flat_map(|value| value.to_le_bytes()).collect();
    archive.block(&head, &block(0, 0, Values::Samples(Element::F32, &2_f32.to_le_bytes()))).unwrap();
    archive.block(&head, &block(0, 1, Values::Gap(Gap { samples: 9, cause: Cause::Socket }))).unwrap();
    archive.block(&head, &block(0, 10, Values::Buckets(Element::I16, 10, &buckets))).unwrap();
    archive.finish().unwrap();
    let out = dir.path().join("out");
    let exported =
        export::export(std::slice::from_ref(&file), &export::Choice::default(), fs::File::create(&out).unwrap())
            .unwrap();
    assert_eq!((exported.rows, exported.samples, exported.missing), (3, 20, 9));
    let of = "magnetics,full,coil 0,T,0000000000000007";
    assert_eq!(
        fs::read_to_string(&out).unwrap(),
        format!(
            "time,station,stream,channel,unit,session,index,value,least,greatest,samples,cause,server\n\
             1700000000000000000,{of},0,2,,,1,,\n\
             1700000000001000000,{of},1,,,,9,socket,\n\
             1700000000010000000,{of},10,2.5,0,5,10,,\n"
        )
    );
}

#[test]
fn what_a_server_sends_on_is_of_its_stations() {
    let dir = TempDir::new().unwrap();
    let (file, out) = (dir.path().join("a.mcap"), dir.path().join("out"));
    let mut archive = ArchiveFile::create(&file).unwrap();
    let stream = Stream { station: "control".into(), name: "view".into(), ..(*stream(7)).clone() };
    for (id, origin) in [(0, "alpha"), (1, "beta")] {
        let channel = Channel { name: "temp".into(), origin: origin.into(), ..(*channel(id)).clone() };
        let (head, values) = (Arc::new(Head::new(&stream, &channel)), 2_f32.to_le_bytes());
        archive.block(&head, &block(id, 0, Values::Samples(Element::F32, &values))).unwrap();
    }
    archive.finish().unwrap();
    let bytes = fs::read(&file).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("/alpha/view/temp") && text.contains("/beta/view/temp"));
    let export = |channels: &[&str]| {
        let channels = channels.iter().map(|&name| name.to_owned()).collect();
        let choice = export::Choice { channels, ..Default::default() };
        export::export(std::slice::from_ref(&file), &choice, fs::File::create(&out).unwrap()).unwrap();
        String::from_utf8_lossy(&fs::read(&out).unwrap()).into_owned()
    };
    let row = |origin| format!("1700000000000000000,{origin},view,temp,T,0000000000000007,0,2,,,1,,control\n");
    let titles = "time,station,stream,channel,unit,session,index,value,least,greatest,samples,cause,server\n";
    let both = export(&["temp"]);
    assert_eq!(both, format!("{titles}{}{}", row("alpha"), row("beta")));
    let one = export(&["beta/view/temp"]);
    assert_eq!(one, format!("{titles}{}", row("beta")));
}

#[test]
fn a_mistake_leaves_no_table_and_infinity_is_a_value() {
    let dir = TempDir::new().unwrap();
    let (file, out) = (dir.path().join("a.mcap"), dir.path().join("out"));
    let mut archive = ArchiveFile::create(&file).unwrap();
    let values: Vec<u8> = [f32::INFINITY, f32::NAN, f32::NEG_INFINITY].iter().flat_map(|v| v.to_le_bytes()).collect();
    archive.block(&head(7), &block(0, 0, Values::Samples(Element::F32, &values))).unwrap();
    archive.finish().unwrap();
    let export =
        |choice: &export::Choice| export::export(std::slice::from_ref(&file), choice, fs::File::create(&out).unwrap());
    let named = export::Choice { channels: vec!["coil 9".into()], ..Default::default() };
    let late = export::Choice { from: Some(i64::MAX), ..Default::default() };
    assert!(export(&named).unwrap_err().to_string().starts_with("--channel \"coil 9\": "));
    assert!(export(&late).unwrap_err().to_string().contains("nothing was recorded then"));
    assert_eq!(fs::read(&out).unwrap(), b"");
    export(&export::Choice::default()).unwrap();
    let text = fs::read_to_string(&out).unwrap();
    let values: Vec<_> = text.lines().skip(1).map(|line| line.split(',').nth(7).unwrap()).collect();
    assert_eq!(values, ["inf", "", "-inf"]);
}

#[test]
fn a_file_that_was_broken_off_says_so() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a.mcap");
    let mut archive = ArchiveFile::create(&path).unwrap();
    archive.block(&head(7), &block(0, 0, Values::Samples(Element::F32, &samples(0)))).unwrap();
    archive.end_chunk().unwrap();
    archive.break_off().unwrap();
    let mut samples = 0;
    let damage = read(&path, |_, block| {
        samples += block.samples();
    });
    assert_eq!((samples, damage.unwrap().unwrap().error.contains("not closed in order")), (100, true));
}

/// All of the disk but what is to be left is full: the gaps that end an archive are in it all the same.
#[test]
fn the_last_gaps_are_written_to_what_is_left_to_others() {
    let dir = TempDir::new().unwrap();
    let state = Arc::new(State::default());
    let settings = Settings { limits: Limits { leave: u64::MAX, ..Limits::default() }, ..settings(dir.path()) };
    let mut recorder = Recorder::start(&settings, state.clone(), Pulses::new().pulse("archive")).unwrap();
    let stream = stream(7);
    recorder.channel(&stream, &channel(0));
    recorder.block(&stream, &block(0, 0, Values::Samples(Element::F32, &samples(0))));
    recorder.finish();
    let ledger = state.ledger(true);
    assert_eq!((ledger.closed, ledger.kept.get(), ledger.unkept.get()), (true, 0, 100), "{ledger:?}");
    let found = &find(&files(dir.path()))[&(7, 0)];
    assert_eq!(found.gaps, [(Cause::Server, 100)].into());
}

/// What it had is gone, and what comes is kept.
#[test]
fn after_a_file_was_deleted_there_is_another() {
    let dir = TempDir::new().unwrap();
    let state = Arc::new(State::default());
    let mut recorder = Recorder::start(&settings(dir.path()), state.clone(), Pulses::new().pulse("archive")).unwrap();
    let stream = stream(7);
    recorder.channel(&stream, &channel(0));
    let mut send = |first: u64| {
        recorder.block(&stream, &block(0, first, Values::Samples(Element::F32, &samples(first))));
        recorder.flush();
    };
    send(0);
    await_that("the first chunk", || state.ledger(false).kept.get() == 100);
    for file in files(dir.path()) {
        fs::remove_file(file).unwrap();
    }
    let mut next = 100;
    await_that("another file", || {
        send(next);
        next += 100;
        state.ledger(false).files.get() == 2
    });
    recorder.finish();
    let ledger = state.ledger(true);
    assert!(ledger.closed && ledger.kept.get() + ledger.unkept.get() == next, "{ledger:?}");
    let mut samples = 0;
    for file in files(dir.path()) {
        assert!(read(&file, |_, block| samples += block.samples()).unwrap().is_none());
    }
    assert_eq!(samples, next - 100, "with the gap of the chunk that was open");
}

proptest! {
    #[test]
    fn a_block_is_read_as_it_was_written(
        first in 0..u64::MAX / 2, time in any::<i64>(), ticks in (1..u32::MAX, 1..u32::MAX), form in 0..3, bucket in 1..u32::MAX,
        element in 0..4_u8, count in 1..300_usize, fill in any::<u8>(), missing in 1..u64::MAX / 2, cause in 0..10_u8,
    ) {
        let element = Element::from_code(element).unwrap();
        let bytes = vec![fill; count * 4 * element.size()];
        let values = match form {
            0 => Values::Samples(element, &bytes),
            1 => Values::Buckets(element, bucket, &bytes),
            _ => Values::Gap(Gap { samples: missing, cause: Cause::from_code(cause) }),
        };
        let rate = Rate { per_second: ticks.0, per_sample: ticks.1 };
        let block = Block { channel: 0, first, time, rate, values };
        let mut bytes = Vec::new();
        Message::new(&block, (1.0, 0.0)).write(&mut bytes);
        let message = Message::read(&bytes).unwrap();
        prop_assert_eq!(message.block(0), Ok(block));
    }

    #[test]
    fn no_message_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Message::read(&bytes);
    }
}
