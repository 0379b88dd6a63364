//! Against lines as their specifications write them; any other text is refused or read, and nothing worse.

use proptest::prelude::*;

use super::*;

type Seen = Vec<(String, Option<i64>, f64)>;

fn seen(read: impl FnOnce(&mut dyn FnMut(&str, Option<i64>, f64)) -> Result<(), Unreadable>) -> (Seen, bool) {
    let mut all = Vec::new();
    let read = read(&mut |name, time, value| all.push((name.to_owned(), time, value)));
    (all, read.is_ok())
}

fn of(values: &[(&str, Option<i64>, f64)]) -> Seen {
    values.iter().map(|&(name, time, value)| (name.to_owned(), time, value)).collect()
}

#[test]
fn influx_lines_are_read() {
    let read = |line: &str| seen(|look| influx(line, &mut String::new(), look));
    let line = "weather,location=us-midwest temperature=82,humidity=71i,rain=t,text=\"a, b=1\" 1465839830100400200";
    let at = Some(1_465_839_830_100_400_200);
    let tags = "{location=us-midwest}";
    let expected = [
        (format!("weather.temperature{tags}"), at, 82.0),
        (format!("weather.humidity{tags}"), at, 71.0),
        (format!("weather.rain{tags}"), at, 1.0),
    ];
    assert_eq!(read(line), (expected.to_vec(), true));
    assert_eq!(read("a\\ b,c=d\\,e f\\==-1.5e3"), (of(&[("a b.f={c=d,e}", None, -1500.0)]), true));
    assert_eq!(read("# a comment"), (vec![], true));
    assert_eq!(read("m a=1,b=x,c=3"), (of(&[("m.a", None, 1.0), ("m.c", None, 3.0)]), false));
    for wrong in ["m", ",t=1 a=1", "m a", "m a=1 later", "m =1"] {
        assert_eq!(read(wrong), (vec![], false), "{wrong}");
    }
}

#[test]
fn json_is_read() {
    let read = |text: &str| seen(|look| json(text, &mut String::new(), look));
    let nested =
        r#"{"timestamp": 1700000000.5, "coil": {"current": 3, "on": true, "t": 4}, "x": [1, 2.5], "name": "a"}"#;
    let at = Some(1_700_000_000_500_000_000);
    let expected =
        of(&[("coil.current", at, 3.0), ("coil.on", at, 1.0), ("coil.t", at, 4.0), ("x.0", at, 1.0), ("x.1", at, 2.5)]);
    assert_eq!(read(nested), (expected, true));
    let expected = of(&[("a", Some(1_700_000_000_123_456_789), 1.0), ("a", None, 2.0)]);
    assert_eq!(read(r#"[{"t": 1700000000123456789, "a": 1}, {"a": 2}]"#), (expected, true));
    for wrong in ["", "3", "[1]", "{\"a\": 1", "{\"a\": 1} x"] {
        assert_eq!(read(wrong), (vec![], false), "{wrong}");
    }
}

#[test]
fn statsd_is_read() {
    let mut statsd = Statsd::default();
    let mut read = |line: &str| seen(|look| statsd.line(line, look));
    assert_eq!(read("gorets:1|c"), (of(&[("gorets", None, 1.0)]), true));
    assert_eq!(read("gorets:1|c|@0.1"), (of(&[("gorets", None, 11.0)]), true));
    assert_eq!(read("glork:320|ms|@0.1"), (of(&[("glork", None, 320.0)]), true));
    assert_eq!(read("gaugor:333|g"), (of(&[("gaugor", None, 333.0)]), true));
    assert_eq!(read("gaugor:-10|g"), (of(&[("gaugor", None, 323.0)]), true));
    assert_eq!(read("gaugor:+4|g|#host:a"), (of(&[("gaugor{host:a}", None, 4.0)]), true));
    assert_eq!(read("uniques:765|s"), (vec![], true));
    for wrong in ["gorets", "gorets:1", ":1|c", "gorets:x|c", "gorets:1|q", "gorets:1|c|@0"] {
        assert_eq!(read(wrong), (vec![], false), "{wrong}");
    }
    // Three names are known already.
    let taken = (0..5000).filter(|name| read(&format!("n{name}:1|c")).1).count();
    assert_eq!(taken, 4096 - 3);
}

#[test]
fn csv_is_read() {
    let mut csv = Csv::default();
    let mut read = |line: &str| seen(|look| csv.line(line, look));
    assert_eq!(read("time,\"coil, \"\"I\"\"\",B"), (vec![], true));
    let at = Some(1_700_000_000_250_000_000);
    assert_eq!(read("1700000000250, 1.5 ,-2\r\n"), (of(&[("coil, \"I\"", at, 1.5), ("B", at, -2.0)]), true));
    assert_eq!(read("1700000000250,,7"), (of(&[("B", at, 7.0)]), true));
    assert_eq!(read("1700000000250,x,7,8"), (of(&[("B", at, 7.0)]), false));
    // A time that is none is no time of arrival; where there is none at all, it is.
    for time in ["nan", "1e400", "yesterday"] {
        assert_eq!(read(&format!("{time},1,7")), (vec![], false), "{time}");
    }
    assert_eq!(read(",1,7"), (of(&[("coil, \"I\"", None, 1.0), ("B", None, 7.0)]), true));
    // A temperature is no time, wherever it stands; nor is what is no number.
    for (names, columns) in [("T", vec!["T"]), ("T,x", vec!["T", "x"]), ("x,t", vec!["x", "t"]), ("t,T", vec!["T"])] {
        let mut csv = Csv::default();
        assert_eq!(seen(|look| csv.line(names, look)), (vec![], true));
        assert_eq!(csv.columns().collect::<Vec<_>>(), columns, "{names}");
    }
    let mut csv = Csv::default();
    assert_eq!(seen(|look| csv.line("Time,p", look)), (vec![], true));
    assert_eq!(seen(|look| csv.line("2026-11-23,1", look)), (vec![], false));
    let mut csv = Csv::default();
    let first = seen(|look| csv.line("1;2", look));
    assert_eq!(first, (of(&[("0", None, 1.0), ("1", None, 2.0)]), true));
}

#[test]
fn times_have_the_unit_of_their_size() {
    for written in [1.7e9, 1.7e12, 1.7e15, 1.7e18] {
        assert_eq!(time(written), Some(1_700_000_000_000_000_000));
    }
    assert_eq!((time(f64::NAN), time(1e300)), (None, None));
}

proptest! {
    #[test]
    fn arbitrary_texts_are_read_or_refused(
        text in proptest::string::string_regex("[a-z0-9,= .\\\\\"{}:|@#\\[\\]é-]{0,60}").unwrap(),
        first in "\\PC{0,20}",
    ) {
        let mut name = String::new();
        let _ = influx(&text, &mut name, |name, _, _| assert!(!name.is_empty()));
        let _ = json(&text, &mut name, |_, _, _| {});
        let _ = Statsd::default().line(&text, |name, _, _| assert!(!name.is_empty()));
        let mut csv = Csv::default();
        let _ = csv.line(&first, |_, _, _| {});
        let _ = csv.line(&text, |_, _, _| {});
    }
}
