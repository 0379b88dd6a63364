//! Against lines as their specifications write them; any other text is refused or read, and nothing worse.

use proptest::prelude::*;
use weir_wire::signal::Element;

use super::*;

type Seen = Vec<(String, Option<i64>, f64)>;

fn seen(format: &mut Format, text: &str) -> (Seen, bool) {
    let mut all = Vec::new();
    let read = format.read(text.as_bytes(), &mut |name, time, value| all.push((name.to_owned(), time, value)));
    (all, read.is_ok())
}

fn of(values: &[(&str, Option<i64>, f64)]) -> Seen {
    values.iter().map(|&(name, time, value)| (name.to_owned(), time, value)).collect()
}

fn influx() -> Format {
    Format::Influx(Influx { unit: Unit::Ns, tags: None })
}

fn csv() -> Format {
    Format::Csv(Csv::new(&[], None))
}

#[test]
fn influx_lines_are_read() {
    let read = |line: &str| seen(&mut influx(), line);
    let line = "weather,location=us-midwest temperature=82,humidity=71i,rain=t,text=\"a, b=1\" 1465839830100400200";
    let at = Some(1_465_839_830_100_400_200);
    let expected = [
        ("weather.temperature{location=us-midwest}", at, 82.0),
        ("weather.humidity{location=us-midwest}", at, 71.0),
        ("weather.rain{location=us-midwest}", at, 1.0),
    ];
    assert_eq!(read(line), (of(&expected), true));
    assert_eq!(read("a\\ b,c=d\\,e f\\==-1.5e3"), (of(&[("a b.f={c=d,e}", None, -1500.0)]), true));
    assert_eq!(read("# a comment"), (vec![], true));
    assert_eq!(read("m a=1,b=x,c=3"), (of(&[("m.a", None, 1.0), ("m.c", None, 3.0)]), false));
    // Of tags a quote is a character like any other.
    assert_eq!(read("m,inch=\" v=3"), (of(&[("m.v{inch=\"}", None, 3.0)]), true));
    for wrong in ["m", ",t=1 a=1", "m a", "m a=1 later", "m =1"] {
        assert_eq!(read(wrong), (vec![], false), "{wrong}");
    }
}

#[test]
fn json_is_read() {
    let read = |text: &str| seen(&mut Format::Json(Json { is_datagram: true, unit: None }), text);
    let nested =
        r#"{"timestamp": 1700000000.5, "coil": {"current": 3, "on": true, "t": 4}, "x": [1, 2.5], "name": "a"}"#;
    let at = Some(1_700_000_000_500_000_000);
    let expected =
        of(&[("coil.current", at, 3.0), ("coil.on", at, 1.0), ("coil.t", at, 4.0), ("x.0", at, 1.0), ("x.1", at, 2.5)]);
    assert_eq!(read(nested), (expected.clone(), true));
    assert_eq!(read(&nested.replace(", ", ",\n")), (expected, true));
    let expected = of(&[("a", Some(1_700_000_000_123_456_789), 1.0), ("a", None, 2.0)]);
    assert_eq!(read(r#"[{"t": 1700000000123456789, "a": 1}, {"a": 2}]"#), (expected, true));
    for wrong in ["3", "[1]", "{\"a\": 1", "{\"a\": 1} x"] {
        assert_eq!(read(wrong), (vec![], false), "{wrong}");
    }
}

#[test]
fn statsd_is_read() {
    let mut format = Format::Statsd(Statsd::new(None));
    let mut read = |line: &str| {
        let (_, is_read) = seen(&mut format, line);
        let mut all = Vec::new();
        if let Format::Statsd(statsd) = &mut format {
            statsd.flush(&mut |name, time, value| all.push((name.to_owned(), time, value)));
        }
        (all, is_read)
    };
    assert_eq!(read("gorets:1|c"), (of(&[("gorets", None, 1.0)]), true));
    assert_eq!(read("gorets:1|c|@0.1"), (of(&[("gorets", None, 11.0)]), true));
    assert_eq!(read("glork:320|ms|@0.1"), (of(&[("glork", None, 320.0)]), true));
    assert_eq!(read("gaugor:333|g"), (of(&[("gaugor", None, 333.0)]), true));
    assert_eq!(read("gaugor:-10|g"), (of(&[("gaugor", None, 323.0)]), true));
    assert_eq!(read("gaugor:+4|g|#host:a|c:f1ce8f07"), (of(&[("gaugor{host:a}", None, 4.0)]), true));
    assert_eq!(read("several:1:2:3|c"), (of(&[("several", None, 6.0)]), true));
    assert_eq!(read("uniques:765|s"), (vec![], true));
    for wrong in ["gorets", "gorets:1", ":1|c", "gorets:x|c", "gorets:1|q", "gorets:1|c|@0"] {
        assert_eq!(read(wrong), (vec![], false), "{wrong}");
    }
    // Five names are known already.
    let taken = (0..5000).filter(|name| read(&format!("n{name}:1|c")).1).count();
    assert_eq!(taken, 4096 - 5);
}

#[test]
fn csv_is_read() {
    let mut format = csv();
    let mut read = |line: &str| seen(&mut format, line);
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
        let mut format = csv();
        assert_eq!(seen(&mut format, names), (vec![], true));
        let (values, _) = seen(&mut format, "1700000000,1700000000");
        assert_eq!(values.iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>(), columns, "{names}");
    }
    let mut format = csv();
    assert_eq!(seen(&mut format, "Time,p"), (vec![], true));
    assert_eq!(seen(&mut format, "2026-11-23,1"), (vec![], false));
    assert_eq!(seen(&mut csv(), "1;2"), (of(&[("0", None, 1.0), ("1", None, 2.0)]), true));
    let names = ["t".to_owned(), "a".to_owned()];
    let mut named = Format::Csv(Csv::new(&names, Some(Unit::Ms)));
    assert_eq!(seen(&mut named, "1500,7"), (of(&[("a", Some(1_500_000_000), 7.0)]), true));
}

#[test]
fn raw_frames_are_whole() {
    let raw = Raw { names: vec!["a".into(), "b".into()], element: Element::I16 };
    let bytes = [1, 0, 2, 0, 3, 0, 255, 255, 9];
    assert_eq!(Format::Raw(raw.clone()).frame(&bytes, true), Some(8));
    assert_eq!(raw.column(0, &bytes[..8]).collect::<Vec<_>>(), [1.0, 3.0]);
    assert_eq!(raw.column(1, &bytes[..8]).collect::<Vec<_>>(), [2.0, -1.0]);
    assert_eq!(Format::Raw(raw).frame(&bytes[..3], true), None);
}

#[test]
fn times_have_the_unit_that_is_said_or_that_of_their_size() {
    for written in ["1700000000", "1700000000000", "1700000000000000", "1700000000000000000"] {
        assert_eq!(time(written, None), Some(1_700_000_000_000_000_000), "{written}");
    }
    assert_eq!(time("1.5", Some(Unit::Us)), Some(1_500));
    for wrong in ["nan", "1e300", "9300000000000000000", "9300000000s"] {
        assert_eq!(time(wrong, None), None, "{wrong}");
    }
    assert_eq!(time("9300000000", Some(Unit::S)), None);
}

proptest! {
    #[test]
    fn arbitrary_texts_are_read_or_refused(
        text in proptest::string::string_regex("[a-z0-9,= .\\\\\"{}:|@#\\[\\]\n\té-]{0,60}").unwrap(),
        first in "\\PC{0,20}",
    ) {
        let json = Format::Json(Json { is_datagram: false, unit: None });
        for mut format in [csv(), json, influx(), Format::Statsd(Statsd::new(None))] {
            let _ = format.read(first.as_bytes(), &mut |_, _, _| {});
            let mut rest = text.as_bytes();
            while let Some(length) = format.frame(rest, true) {
                prop_assert!(length > 0);
                let _ = format.read(&rest[..length], &mut |_, _, _| {});
                rest = &rest[length..];
            }
            prop_assert!(rest.is_empty());
        }
    }
}
