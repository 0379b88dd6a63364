//! What others write as they write it: docs/monitor-station.md, "Formats" and "Times".

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;

use weir_program::config::Document;
use weir_signal::seal::Sealer;
use weir_signal::send::{Lane, Outlets, Sender, Stream as Sent};
use weir_wire::signal::{Cause, Values};

use super::points::Points;
use super::stream::Stream;
use super::*;
use crate::station::clock::Moment;
use crate::station::config::{self, Config};
use crate::station::readers::Format;

const SECOND: u64 = 1_000_000_000;

/// In 2023.
const BEGIN: i64 = 1_700_000_000_000_000_000;

/// A station that sends nothing, a tenth of a second older with each datagram.
struct Fixture {
    board: Board,
    points: Points,
    format: Format,
}

fn board() -> Board {
    let config: Config = Document::parse("", "").unwrap().read().unwrap();
    let stream = Sent {
        station: "s".into(),
        name: "display".into(),
        sealer: Sealer::default(),
        most_bytes: 1472,
        fault: Cause::Station,
    };
    let mut board = Board::new(&config, vec![Sender::new(stream, Outlets::open(&[], 1, 0).unwrap())]);
    board.now = Moment { elapsed: 0, utc: BEGIN };
    board
}

/// Samples that wait, gaps in brackets.
fn shown_of(lane: &Lane) -> String {
    let words = lane.blocks().flat_map(|block| match block.values {
        Values::Gap(gap) => vec![format!("[{}]", gap.samples)],
        _ => block.each().map(|value| value.to_string()).collect(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Of each channel its samples; gaps in brackets.
fn shown(board: &Board) -> BTreeMap<String, String> {
    board.streams[0].lanes.values().map(|lane| (lane.channel.name.clone(), shown_of(lane))).collect()
}

fn source(flags: &str) -> Settings {
    config::source(flags).unwrap().settings().unwrap()
}

impl Fixture {
    fn new(flags: &str) -> Self {
        let settings = source(&format!("udp,listen=127.0.0.1:1,{flags}"));
        let Kind::Udp(_, feed) = &settings.kind else { panic!("no feed") };
        Self { board: board(), points: Points::new(0, &settings, feed), format: feed.format.clone() }
    }

    /// Of datagrams: what is shown, and how much could not be read.
    fn of(flags: &str, datagrams: &[&str]) -> (BTreeMap<String, String>, u64) {
        let mut fixture = Self::new(flags);
        datagrams.iter().for_each(|datagram| fixture.take(datagram));
        fixture.pass();
        (shown(&fixture.board), fixture.points.count.unreadable)
    }

    fn take(&mut self, datagram: &str) {
        self.points.read(&mut self.format, datagram.as_bytes(), true, &mut { u64::MAX }, &mut self.board);
        self.pass();
    }

    fn pass(&mut self) {
        self.points.show_states(&mut self.format, &mut self.board);
        self.board.now.elapsed += SECOND / 10;
        self.board.now.utc += SECOND as i64 / 10;
        self.points.show_states(&mut self.format, &mut self.board);
    }

    fn steps(&self) -> u64 {
        self.points.count.time_steps
    }
}

fn of(channels: &[(&str, &str)]) -> BTreeMap<String, String> {
    channels.iter().map(|&(name, values)| (name.to_owned(), values.to_owned())).collect()
}

#[test]
fn a_second_header_names_the_columns_anew() {
    let rows = "1700000000.0,1,2\ntime,b,a\n1700000000.1,4,3\n";
    assert_eq!(Fixture::of("names=time+a+b", &[rows]), (of(&[("a", "1 3"), ("b", "2 4")]), 0));
}

#[test]
fn marks_comments_texts_and_decimal_commas_are_no_obstacle() {
    let mut fixture = Fixture::new("names=x");
    fixture.format = Format::Csv(crate::station::readers::Csv::new(&[], None));
    fixture.take("\u{feff}#version=13.0\ntime;state;v\n1700000000,0;run;1,5\n1700000000,1;idle;2,5\n");
    assert_eq!((shown(&fixture.board), fixture.points.count.unreadable), (of(&[("v", "1.5 2.5")]), 1));
}

#[test]
fn a_line_break_in_a_quoted_text_ends_no_line() {
    let lines = "log,host=a message=\"Hey!\ncpu,host=b \\\"x\\\"=1\",level=3i\ncpu usage=1\n";
    assert_eq!(Fixture::of("format=influx", &[lines]), (of(&[("cpu.usage", "1"), ("log.level{host=a}", "3")]), 0));
}

#[test]
fn times_before_2000_are_said_and_a_unit_mends_them() {
    let mut fixture = Fixture::new("format=influx");
    fixture.take("m v=1 1700000000");
    fixture.take("m v=2 1700000001");
    let [said] = &fixture.board.remarks[..] else { panic!("{:?}", fixture.board.remarks) };
    assert!(said.starts_with("udp 127.0.0.1:1: times before 2000: set `precision`"), "{said}");
    assert_eq!(fixture.points.count.early, 2);
    let mut fixture = Fixture::new("format=influx,precision=s,rate=1/s");
    ["m v=1 1700000000", "m v=2 1700000001"].iter().for_each(|line| fixture.take(line));
    assert_eq!((shown(&fixture.board), fixture.points.count.early), (of(&[("m.v", "1 2")]), 0));
}

#[test]
fn tags_in_another_order_are_the_same_channel() {
    let lines = ["cpu,a=1,b=2 u=1", "cpu,b=2,a=1 u=2"];
    assert_eq!(Fixture::of("format=influx", &lines), (of(&[("cpu.u{a=1,b=2}", "1 2")]), 0));
    let lines = ["req:1|c|#a:1,b:2", "req:1|c|#b:2,a:1"];
    assert_eq!(Fixture::of("format=statsd", &lines), (of(&[("req{a:1,b:2}", "1 2")]), 0));
}

#[test]
fn tags_that_are_chosen_keep_names_short() {
    let tags: String = (0..9).map(|at| format!(",label_{at}=value_of_label_{at}")).collect();
    let lines = [&*format!("pods{tags},pod=a,host=n cpu=1"), &*format!("pods{tags},pod=b,host=n cpu=2")];
    let names = [("pods.cpu{host=n,pod=a}", "1"), ("pods.cpu{host=n,pod=b}", "2")];
    assert_eq!(Fixture::of("format=influx,tags=host+pod", &lines), (of(&names), 0));
}

#[test]
fn what_is_no_number_poisons_neither_counters_nor_gauges() {
    let lines = ["c:1|c", "c:NaN|c", "c:inf|c", "c:1e309|c", "c:1|c", "g:4|g", "g:+nan|g", "g:+1|g"];
    assert_eq!(Fixture::of("format=statsd", &lines), (of(&[("c", "1 [2] 2"), ("g", "4 [1] 5")]), 4));
}

#[test]
fn the_last_state_of_a_slot_is_its_sample() {
    let lines = ["hits:1|c\n".repeat(10), "temp:1|g\ntemp:5|g\ntemp:9|g".into()].concat();
    assert_eq!(Fixture::of("format=statsd", &[&lines]), (of(&[("hits", "10"), ("temp", "9")]), 0));
    // Several datagrams within a slot.
    let mut fixture = Fixture::new("format=statsd,rate=1/s");
    (0..8).for_each(|_| fixture.take("hits:1|c"));
    (0..4).for_each(|_| fixture.pass());
    assert_eq!(shown(&fixture.board), of(&[("hits", "8")]));
}

#[test]
fn dialects_of_statsd_are_read() {
    let (channels, unreadable) = Fixture::of(
        "format=statsd",
        &["k:1|ms:2|ms", "s:1|c|@0.5:4|c", "t:7|g|T1700000000\nt:8|g|T1700000002", "x:100|g", "x:1|c", "x:7|g"],
    );
    let expected = [("k", "2"), ("s", "6"), ("t", "7 [19] 8"), ("x", "100 [1] 7"), ("x.counter", "1")];
    assert_eq!((channels, unreadable), (of(&expected), 0));
}

#[test]
fn each_object_of_a_datagram_is_a_point_whatever_it_lacks() {
    let text = "\u{feff}{\"t\":1700000000.0,\"a\":1,\"b\":NaN}\n{\"t\":1700000000.1,\"a\":-Infinity,\"b\":2}\r\n\0";
    assert_eq!(Fixture::of("format=json", &[text]), (of(&[("a", "1"), ("b", "2")]), 0));
    let text = "{\"t\":1700000000.0,\"a\":1}\n{\"a\":\n{\"t\":1700000000.1,\"a\":2}";
    assert_eq!(Fixture::of("format=json", &[text]), (of(&[("a", "1 2")]), 1));
}

#[test]
fn a_device_that_counts_from_its_start_begins_again_without_a_gap() {
    let mut fixture = Fixture::new("format=json,time=start,precision=us");
    let mut take = |us: u64, value: u64| fixture.take(&format!("{{\"ts\":{us},\"v\":{value}}}"));
    (0..5).for_each(|at| take(5_000_000 + at * 100_000, at));
    // It restarts, and its counter of 32 bits wraps.
    (0..3).for_each(|at| take(1_000 + at * 100_000, 10 + at));
    take(u64::from(u32::MAX) - 100_000, 20);
    take(u64::from(u32::MAX), 21);
    (0..3).for_each(|at| take(100_000 + at * 100_000, 30 + at));
    // One of two points tells of it.
    assert_eq!(shown(&fixture.board), of(&[("v", "0 1 2 3 4 11 12 20 21 31 32")]));
    assert_eq!((fixture.steps(), fixture.points.count.late), (3, 2));
    assert!(
        fixture.board.remarks[0].contains("the clock of v was set, or begins again"),
        "{:?}",
        fixture.board.remarks
    );
    // Its times are this station's.
    let lane = &fixture.board.streams[0].lanes[&0];
    let last = lane.blocks().last().unwrap().time;
    assert!((last - fixture.board.now.utc).abs() < 2 * SECOND as i64, "{last}");
    assert_eq!(
        Fixture::of("format=json,time=arrival", &[r#"{"ts":5,"v":1}"#, r#"{"ts":1,"v":2}"#]).0,
        of(&[("v", "1 2")])
    );
}

#[test]
fn a_clock_at_1970_until_it_is_set_is_no_gap() {
    let mut fixture = Fixture::new("format=json");
    let mut take = |time: f64, value: u64| fixture.take(&format!("{{\"timestamp\":{time},\"v\":{value}}}"));
    (0..3).for_each(|at| take(100.0 + f64::from(at) / 10.0, 1));
    (0..3).for_each(|at| take(1.7e9 + f64::from(at) / 10.0, 2));
    // And a clock that is set back by an hour; a single stray is none.
    (0..3).for_each(|at| take(1.7e9 - 3600.0 + f64::from(at) / 10.0, 3));
    take(1.7e9 - 7200.0, 4);
    take(1.7e9 - 3600.0 + 0.3, 5);
    assert_eq!(shown(&fixture.board), of(&[("v", "1 1 1 2 2 2 3 3 5")]));
    assert_eq!((fixture.steps(), fixture.points.count.late), (2, 2));
}

#[test]
fn a_file_is_read_on_until_its_writer_has_heard_of_the_rotation() {
    let folder = tempfile::TempDir::new().unwrap();
    let (path, old) = (folder.path().join("values.csv"), folder.path().join("values.csv.1"));
    fs::write(&path, "\u{feff}# from here\ntime,a,b\n1700000000,99,99\n").unwrap();
    let settings = source(&format!("tail,path={},rate=1/s", path.display()));
    let Kind::Tail(_, feed) = &settings.kind else { panic!("no file") };
    let (mut board, mut stream) = (board(), Stream::tail(0, &settings, &path, feed).unwrap());
    let mut pass = |seconds: u64, board: &mut Board| {
        board.now.elapsed += seconds * SECOND;
        board.now.utc += (seconds * SECOND) as i64;
        for _ in 0..3 {
            stream.take(board).unwrap();
        }
    };
    let append = |path: &std::path::Path, text: &str| {
        File::options().append(true).create(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    };
    append(&path, "1700000001,1,1\n17000");
    pass(1, &mut board);
    append(&path, "00002,2,2\n");
    pass(1, &mut board);
    fs::rename(&path, &old).unwrap();
    append(&path, "time,b,a\n");
    append(&old, "1700000003,3,-3\n");
    pass(1, &mut board);
    append(&old, "1700000004,4,-4\n");
    pass(1, &mut board);
    append(&path, "1700000005,-5,5\n");
    pass(1, &mut board);
    // The old one has stood still for longer than anybody waits.
    pass(6, &mut board);
    append(&old, "1700000006,99,99\n");
    append(&path, "1700000006,-6,6\n");
    pass(1, &mut board);
    assert_eq!(shown(&board), of(&[("a", "1 2 3 4 5 6"), ("b", "1 2 -3 -4 -5 -6")]));
}

#[test]
fn raw_frames_are_samples_as_they_come_and_rows_by_the_clock() {
    let mut fixture = Fixture::new("format=raw,names=u+i,element=i16,rate=100/s");
    let bytes: Vec<u8> = [1_i16, -1, 2, -2, 3].iter().flat_map(|value| value.to_le_bytes()).collect();
    let taken = fixture.points.read(&mut fixture.format, &bytes, true, &mut { u64::MAX }, &mut fixture.board);
    assert_eq!((taken, shown(&fixture.board)), (8, of(&[("u", "1 2"), ("i", "-1 -2")])));
    let mut most = 1;
    assert_eq!(fixture.points.read(&mut fixture.format, &bytes, true, &mut most, &mut fixture.board), 4);
    assert_eq!(most, 0);
}
