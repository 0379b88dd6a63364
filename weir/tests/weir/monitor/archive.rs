//! `weir monitor record`, `export` and `replay`: what was sent, by a sender of the test's own, is what readers of others' making find.

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use tempfile::TempDir;
use weir_testbed::{Ended, Started, await_that, program, skip};

use crate::service::Machine;
use crate::{WEIR, weir};

/// A sender of one channel: 1 kHz, f32, each sample its own index.
struct Sender {
    socket: UdpSocket,
    session: u64,
    sequence: u64,
    next: u64,
}

impl Sender {
    fn new(machine: &Machine, session: u64) -> Self {
        Self { socket: machine.udp("127.0.0.1:0"), session, sequence: 0, next: 0 }
    }

    fn header(&self, kind: u8, count: u16) -> Vec<u8> {
        let mut bytes = b"WS".to_vec();
        bytes.extend([1 << 4 | kind, 0, 2, 20]);
        bytes.extend(count.to_le_bytes());
        bytes.extend(self.session.to_le_bytes());
        bytes.extend(self.sequence.to_le_bytes());
        bytes
    }

    fn tell(&self) {
        let mut bytes = self.header(3, 0);
        for (key, value) in [(1, &b"bench"[..]), (2, b"full"), (16, &[0, 0]), (17, b"ramp, \"slow\""), (18, b"V")] {
            bytes.extend([key, value.len() as u8]);
            bytes.extend(value);
        }
        for (key, value) in [(27, 0.5_f64), (28, 10.0)] {
            bytes.extend([key, 8]);
            bytes.extend(value.to_le_bytes());
        }
        for (key, value) in [(29, 1000_u32), (30, 1), (32, 1)] {
            bytes.extend([key, 4]);
            bytes.extend(value.to_le_bytes());
        }
        bytes.extend([31, 1, 0]);
        self.socket.send_to(&bytes, LISTEN).unwrap();
    }

    /// Sends the next samples, or has them lost on the way.
    fn send(&mut self, samples: u16, arrives: bool) {
        let mut bytes = self.header(0, 1);
        bytes.extend([0, 0, 0, 0]);
        bytes.extend(samples.to_le_bytes());
        bytes.extend([0, 0]);
        bytes.extend(self.next.to_le_bytes());
        bytes.extend((BEGIN + self.next as i64 * 1_000_000).to_le_bytes());
        for word in [1000_u32, 1, 1] {
            bytes.extend(word.to_le_bytes());
        }
        for index in self.next..self.next + u64::from(samples) {
            bytes.extend((index as f32).to_le_bytes());
        }
        if arrives {
            self.socket.send_to(&bytes, LISTEN).unwrap();
        }
        self.sequence += 1;
        self.next += u64::from(samples);
    }

    fn end(&self) {
        let mut bytes = self.header(2, 1);
        bytes.extend([0, 0]);
        bytes.extend(self.next.to_le_bytes());
        self.socket.send_to(&bytes, LISTEN).unwrap();
    }
}

#[track_caller]
fn record(machine: &Machine, directory: &Path) -> Started {
    let mut command =
        weir(&["monitor", "record", "--json", "--user", "root", "--listen", LISTEN, "--leave", "0", "--dir"]);
    command.arg(directory);
    machine.run(|| Started::ready(command))
}

/// What it prints on standard output, and says, of these files.
fn export(flags: &[&str], files: &[PathBuf]) -> Ended {
    Ended::of(weir(&["monitor", "export"]).args(flags).args(files))
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "mcap"));
    files.sort();
    files
}

/// 1,000 samples of which a tenth, in two places and at the end, does not come; the files.
fn recorded(machine: &Machine, directory: &Path) -> Vec<PathBuf> {
    let mut recorder = record(machine, directory);
    let mut sender = Sender::new(machine, 7);
    sender.tell();
    for number in 0..20 {
        sender.send(50, ![5, 19].contains(&number));
    }
    sender.end();
    recorder.await_ledger(|ledger| ledger["archive"]["came"] == 1000);
    let ledger = recorder.stop();
    let archive = &ledger["archive"];
    assert_eq!((&archive["kept"], &archive["missing"]), (&900.into(), &100.into()), "{ledger:#}");
    files(directory)
}

fn python(code: &str, arguments: &[&Path]) -> Option<String> {
    let python = program("python3")?;
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/peers/python");
    if !Path::new(place).join("wanted").exists() {
        skip("needs mcap from PyPI");
        return None;
    }
    let ended = Ended::of(Command::new(python).args(["-c", code]).args(arguments).env("PYTHONPATH", place));
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    Some(ended.stdout)
}

#[test]
fn what_others_read_is_what_was_sent() {
    let Some(machine) = Machine::new() else { return };
    let dir = TempDir::new().unwrap();
    let files = recorded(&machine, dir.path());
    assert_eq!(files.len(), 1);

    let Ended { status, stdout: text, stderr } = export(&[], &files);
    assert_eq!(status, Some(0), "{stderr}");
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let (mut next, mut missing) = (0, 0);
    for row in reader.records() {
        let row = row.unwrap();
        assert_eq!((&row[1], &row[2], &row[3], &row[4]), ("bench", "full", "ramp, \"slow\"", "V"));
        let (time, index): (i64, i64) = (row[0].parse().unwrap(), row[6].parse().unwrap());
        assert_eq!((index, time), (next, BEGIN + next * 1_000_000));
        let samples: i64 = row[10].parse().unwrap();
        if row[11].is_empty() {
            assert_eq!((row[7].parse::<f64>().unwrap(), samples), (index as f64 * 0.5 + 10.0, 1));
        } else {
            assert_eq!((&row[11], &row[7]), ("network", ""));
            missing += samples;
        }
        next += samples;
    }
    assert_eq!((next, missing), (1000, 100));

    // A reader that has gone has read enough.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let left = weir(&["monitor", "export"]).arg(&files[0]).stdout(writer).output().unwrap();
    assert!(left.status.success() && left.stderr.is_empty(), "{}", String::from_utf8_lossy(&left.stderr));

    let table = dir.path().join("table.csv");
    let flags = ["--out", table.to_str().unwrap()];
    let first = export(&flags, &files);
    assert_eq!(first.status, Some(0), "{}", first.stderr);
    assert_eq!(fs::read_to_string(&table).unwrap(), text);
    // What is there is not written over.
    let Ended { status, stderr: said, .. } = export(&flags, &files);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.ends_with("there is such a file (choose another name, or remove it)\n"), "{said}");

    let Some(sums) = python(READ_MCAP, &[&files[0]]) else { return };
    assert_eq!(sums, "/bench/full/ramp, \"slow\" V 900 100 437050.0 484.5 weir.Block\n");
}

/// Topic, unit, samples, missing ones, the sum of samples as they came, the last value scaled: by the schema in the file alone.
const READ_MCAP: &str = "
import sys, math
from mcap.reader import make_reader
from mcap_protobuf.decoder import DecoderFactory
n = missing = total = 0
with open(sys.argv[1], 'rb') as f:
    for schema, channel, message, block in make_reader(f, decoder_factories=[DecoderFactory()]).iter_decoded_messages():
        assert block.first == n + missing and message.log_time == block.time
        n += len(block.f32); missing += block.missing; total += sum(block.f32)
        assert block.missing == 0 or math.isnan(block.value)
        value = block.value if block.f32 else value
print(channel.topic, channel.metadata['unit'], n, missing, total, value, schema.name)
";

#[test]
fn a_replay_is_what_was_recorded() {
    let Some(machine) = Machine::new() else { return };
    let dir = TempDir::new().unwrap();
    let files = recorded(&machine, dir.path());
    let again = TempDir::new().unwrap();
    let mut recorder = record(&machine, again.path());
    let mut replay = weir(&["monitor", "replay", "--speed", "max", "--to", LISTEN]);
    let Ended { status, stderr: said, .. } = machine.run(|| Ended::of(replay.arg(&files[0])));
    assert_eq!(status, Some(0), "{said}");
    assert!(said.starts_with("900 samples and 100 missing ones in "), "{said}");
    recorder.await_ledger(|ledger| ledger["archive"]["came"] == 1000);
    let ledger = recorder.stop();
    assert_eq!((&ledger["archive"]["kept"], &ledger["archive"]["missing"]), (&900.into(), &100.into()), "{ledger:#}");
    // The gaps have the causes that they had.
    assert_eq!(ledger["received"]["missing"]["network"], 100, "{ledger:#}");
}

#[test]
fn a_recorder_that_is_killed_leaves_what_it_had() {
    let Some(machine) = Machine::new() else { return };
    let dir = TempDir::new().unwrap();
    let mut recorder = record(&machine, dir.path());
    let mut sender = Sender::new(&machine, 7);
    sender.tell();
    (0..10).for_each(|_| sender.send(50, true));
    recorder.await_ledger(|ledger| ledger["archive"]["kept"] == 500);
    drop(recorder);
    let cut = files(dir.path());
    let Ended { status, stdout, stderr: said } = export(&[], &cut);
    // It is not all that was recorded: who reads it by a program has to know.
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((status, lines[0]), (Some(1), "500 rows: 500 samples, 0 of them missing"), "{said}");
    assert!(
        lines.len() == 2 && lines[1].contains(": damaged after ") && said.contains("it ends in the middle"),
        "{said}"
    );
    assert_eq!(stdout.lines().count(), 501);
    // Nor is a table thrown away that has a name.
    let table = dir.path().join("table.csv");
    assert_eq!(export(&["--out", table.to_str().unwrap()], &cut).status, Some(1));
    assert_eq!(fs::read_to_string(table).unwrap().lines().count(), 501);
    // What was sent before the next recorder ran is missing, whatever the order of the files.
    sender.send(50, false);
    let mut recorder = record(&machine, dir.path());
    sender.tell();
    sender.send(50, true);
    sender.end();
    recorder.await_ledger(|ledger| ledger["archive"]["kept"] == 50);
    recorder.stop();
    let mut archives = files(dir.path());
    archives.reverse();
    let Ended { stdout: text, stderr: said, .. } = export(&[], &archives);
    assert!(said.starts_with("551 rows: 600 samples, 50 of them missing\n"), "{said}");
    assert!(text.lines().nth(501).unwrap().ends_with(",500,,,,50,server,"), "{text}");
}

#[test]
fn a_full_disk_is_a_gap_until_there_is_room() {
    let Some(machine) = Machine::new() else { return };
    let Some(unshare) = program("unshare") else { return };
    let (dir, kept) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    // A disk of 24 MB of which 23 are another's, seen by the recorder alone; at the end what it wrote is copied from it.
    // The traps are there before it is ready: a signal may come at once.
    let script = format!(
        "mount -t tmpfs -o size=24m none {dir} && head -c 23M /dev/zero >{dir}/others || exit 1\n\
         trap 'rm {dir}/others' USR2; trap 'kill -TERM $!' TERM; trap 'kill -USR1 $!' USR1\n\
         {weir} monitor record --json --listen {LISTEN} --leave 0 --dir {dir} & child=$!\n\
         while kill -0 $child 2>/dev/null; do wait $child; done\n\
         cp {dir}/*.mcap {kept}/",
        dir = dir.path().display(),
        kept = kept.path().display(),
        weir = *WEIR,
    );
    let mut command = Command::new(unshare);
    command.args(["--mount", "sh", "-c", &script]).stdin(Stdio::null());
    let mut recorder = machine.run(|| Started::ready(command));
    let mut sender = Sender::new(&machine, 7);
    sender.tell();
    (0..10).for_each(|_| sender.send(50, true));
    recorder.await_ledger(|ledger| ledger["archive"]["unkept"] == 500);
    recorder.signal(Signal::SIGUSR2);
    // Room again: what comes is kept, and what did not is a gap.
    let mut sent = 500;
    await_that("something to be kept", || {
        sender.send(50, true);
        sent += 50;
        let ledger = recorder.await_ledger(|ledger| ledger["archive"]["came"] == sent);
        ledger["archive"]["kept"].as_u64() > Some(0)
    });
    sender.end();
    let ledger = recorder.stop();
    let number = |key: &str| ledger["archive"][key].as_u64().unwrap();
    assert_eq!(number("kept") + number("unkept"), sent, "{ledger:#}");
    let Ended { status, stdout: text, stderr: said } = export(&[], &files(kept.path()));
    // The disk may have been full in the middle of a file, too.
    assert_eq!(status, Some(i32::from(said.contains(": damaged after "))), "{said}");
    let mut next = 0;
    for row in csv::Reader::from_reader(text.as_bytes()).records() {
        let row = row.unwrap();
        assert_eq!(row[6].parse::<u64>().unwrap(), next);
        assert!(["", "server"].contains(&&row[11]));
        next += row[10].parse::<u64>().unwrap();
    }
    assert_eq!(next, sent);
}

#[test]
fn mistakes_are_told_in_one_line() {
    let dir = TempDir::new().unwrap();
    let no_mcap = dir.path().join("a.csv");
    fs::write(&no_mcap, "no archive at all, but a text").unwrap();
    let path = no_mcap.display();
    let no_archive = "not an MCAP file (name files that weir monitor record wrote)";
    for (arguments, status, line) in [
        (
            vec!["export", "/nowhere.mcap"],
            1,
            "weir: /nowhere.mcap: No such file or directory (os error 2)\n".to_owned(),
        ),
        (vec!["export", no_mcap.to_str().unwrap()], 1, format!("weir: {path}: {no_archive}\n")),
        (vec!["replay", no_mcap.to_str().unwrap(), "--to", LISTEN], 1, format!("weir: {path}: {no_archive}\n")),
        (
            vec!["export", dir.path().to_str().unwrap()],
            1,
            format!(
                "weir: {}: it is a directory without an archive (name files that weir monitor record wrote)\n",
                dir.path().display()
            ),
        ),
        (
            vec!["export", "a.mcap", "--from", "2026-11-23T10:00:00Z", "--until", "2026-11-23 09:00:00"],
            2,
            "weir: --from 2026-11-23T10:00:00Z is not before --until 2026-11-23T09:00:00Z: nothing is between them \
             (choose a later --until)\n"
                .into(),
        ),
        (vec!["record", "--queue", "1MiB"], 2, "weir: --queue: 1MiB (it must be 4MiB to 16GiB)\n".into()),
        (
            vec!["check", "--group", "192.0.2.1"],
            2,
            "weir: --group 192.0.2.1:5110: it is no group (224.0.0.0/4 or ff00::/8)\n".into(),
        ),
    ] {
        let ended = Ended::of(&mut weir(&[&["monitor"], &arguments[..]].concat()));
        assert_eq!((ended.status, ended.stderr), (Some(status), line), "{arguments:?}");
    }
}

#[test]
fn an_interface_is_of_the_usual_group_where_no_other_is_named() {
    let dir = TempDir::new().unwrap();
    for room in [&["serve"][..], &["record", "--dir", dir.path().to_str().unwrap()]] {
        let command = &mut weir(&[&["monitor"][..], room, &["--interface", "lo", "--check"]].concat());
        let Ended { status, stdout: toml, .. } = Ended::of(command);
        let listen = "address = \"239.192.77.1:5110\"\ninterface = \"lo\"\n";
        assert!(status == Some(0) && toml.contains(listen), "{room:?}: {toml}");
    }
}

/// 2023-11-14, in ns.
const BEGIN: i64 = 1_700_000_000_000_000_000;

const LISTEN: &str = "127.0.0.1:5110";
