//! Tests.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

const DOCUMENT: &str = r#"
name = "two"
title = "Two hosts"

[axes]
"path.loss" = { from = "0%", to = "1%", step = "0.5%" }
"traffic.transport" = ["udp", "tcp"]

[hosts.a]
addresses = ["10.0.0.1/24"]
[hosts.b]
addresses = ["10.0.0.2/24"]
[links.l]
ends = ["a", "b"]

[traffic]
from = "a"
to = "b"
port = 9
transport = "udp"
payload = "100B"
interval = "10ms"
"#;

impl Sweep {
    /// As [`Sweep::new`], of what a test has written down.
    pub(crate) fn of_test(origin: &str, text: &str, set: &[(&str, &str)]) -> Result<Sweep> {
        let set: Vec<_> = set.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        Sweep::new(origin, text, &set)
    }
}

fn names(set: &[(&str, &str)]) -> Vec<String> {
    let sweep = Sweep::of_test("two.toml", DOCUMENT, set).unwrap();
    sweep.cells.into_iter().map(|cell| cell.name).collect()
}

/// What is wrong with a document as it is read, or as its cells are checked.
fn error(document: &str, set: &[(&str, &str)]) -> String {
    let checked = Sweep::of_test("two.toml", document, set).and_then(|sweep| sweep.check());
    format!("{:#}", checked.unwrap_err())
}

#[test]
fn every_combination_is_a_cell_the_first_axis_slowest() {
    assert_eq!(names(&[]), ["0%/udp", "0%/tcp", "0.5%/udp", "0.5%/tcp", "1%/udp", "1%/tcp"]);
    let sweep = Sweep::of_test("two.toml", DOCUMENT, &[("tcp.nodelay", "true,false")]).unwrap();
    let axes = [("path.loss", "0%"), ("traffic.transport", "tcp"), ("tcp.nodelay", "true")];
    assert_eq!(sweep.cells[1].axes, axes.map(|(key, value)| (key.to_owned(), value.to_owned())));
    assert!(sweep.cells[1].scenario.tcp.nodelay && !sweep.cells[2].scenario.tcp.nodelay);
}

#[test]
fn set_replaces_values_and_makes_and_ends_axes() {
    let udp = ("traffic.transport", "udp");
    assert_eq!(names(&[("path.loss", "5%")]), ["udp", "tcp"]);
    assert_eq!(names(&[("path.loss", "5%"), udp]), ["single"]);
    let congestion = ("tcp.congestion", "cubic, reno");
    assert_eq!(names(&[("path.loss", "5%"), ("traffic.transport", "tcp"), congestion]), ["cubic", "reno"]);
    assert_eq!(names(&[("path.loss", r#"["1%"]"#), udp]), ["single"]);
    let range = ("path.loss", "{ from = \"2%\", to = \"4%\", step = \"2%\" }");
    assert_eq!(names(&[range, udp]), ["2%", "4%"]);
}

#[test]
fn keys_without_quotes_are_the_same_keys() {
    let document = DOCUMENT.replace("\"path.loss\" =", "path.loss =")
        + "[[cells]]\nname = \"own\"\nset = { traffic.transport = \"quic\", \"links.l.loss\" = { mean = \"5%\", burst = 4 } }\n";
    let sweep = Sweep::of_test("two.toml", &document, &[]).unwrap();
    assert_eq!((sweep.axes[0].key.as_str(), sweep.cells.len()), ("path.loss", 7));
    let own = &sweep.cells[6].scenario;
    assert_eq!((own.traffic.transport.to_string().as_str(), own.links["l"].loss.is_some()), ("quic", true));
}

#[test]
fn a_cell_is_not_run_again_for_what_it_has_no_use_for() {
    let loss = ("path.loss", "0%,5%");
    assert_eq!(
        names(&[loss, ("tcp.congestion", "cubic,bbr")]),
        ["0%/udp/-", "0%/tcp/cubic", "0%/tcp/bbr", "5%/udp/-", "5%/tcp/cubic", "5%/tcp/bbr"]
    );
    assert_eq!(names(&[loss, ("traffic.transport", "quic"), ("quic.congestion", "cubic,bbr")]).len(), 4);
    assert_eq!(names(&[loss, ("traffic.transport", "udp"), ("tcp.nodelay", "true,false")]), ["0%/-", "5%/-"]);
}

#[test]
fn cells_of_their_own_come_after_the_axes() {
    let document = format!("{DOCUMENT}\n[[cells]]\nname = \"bare\"\nset = {{ \"run.impaired\" = false }}\n");
    let sweep = Sweep::of_test("two.toml", &document, &[]).unwrap();
    let (bare, others) = sweep.cells.split_last().unwrap();
    assert_eq!((bare.name.as_str(), bare.axes.len(), bare.scenario.run.impaired), ("bare", 0, false));
    assert!(others.len() == 6 && others.iter().all(|cell| cell.scenario.run.impaired));
    assert_eq!(bare.scenario.traffic.transport.to_string(), "udp", "the first value of the axis");
    assert_eq!(Sweep::of_test("two.toml", &document, &[("cells", "[]")]).unwrap().cells.len(), 6);
}

#[test]
fn an_interval_that_is_set_later_takes_the_place_of_a_rate() {
    let traffic = |document: &str, set: &[(&str, &str)]| {
        let sweep = Sweep::of_test("two.toml", document, set).unwrap();
        let traffic = &sweep.cells.last().unwrap().scenario.traffic;
        (traffic.rate.map(|rate| rate.bits_per_second), traffic.interval.map(|interval| interval.to_string()))
    };
    assert_eq!(traffic(DOCUMENT, &[("traffic.rate", "2mbit")]), (Some(2_000_000), None));
    let paced = DOCUMENT.replace("interval = \"10ms\"", "rate = \"1mbit\"");
    assert_eq!(traffic(&paced, &[("traffic.interval", "5ms")]), (None, Some("5ms".into())));
    let own = format!("{paced}[[cells]]\nname = \"own\"\nset = {{ \"traffic.interval\" = \"5ms\" }}\n");
    assert_eq!(traffic(&own, &[]), (None, Some("5ms".into())));
}

#[test]
fn a_sweep_that_nobody_can_run_is_not_laid_out() {
    let step = r#"{ from = "0%", to = "1%", step = "0.0002%" }"#;
    let set = [("links.l.delay", "1ms,2ms,3ms,4ms,5ms,6ms,7ms,8ms,9ms,10ms")];
    assert_eq!(
        error(&DOCUMENT.replace(r#"{ from = "0%", to = "1%", step = "0.5%" }"#, step), &set),
        "two.toml:6: axes: they make more than 100000 cells. Give them fewer values."
    );
}

/// Each mistake has the line that begins with this, its key, and what to do.
#[test]
fn a_mistake_has_its_line_and_its_key() {
    let shown = r#"
[[charts]]
name = "sent"
title = "Sent"
x = "loss_pct"
y = "sent"
series = "transport"
[[claims]]
text = "All"
column = "sent"
at_least = 1
[claims.where]
transport = "udp"
[[cells]]
name = "own"
[cells.set]
"tcp.nodelay" = true
"#;
    let document = format!("{DOCUMENT}{shown}");
    assert!(Sweep::of_test("two.toml", &document, &[]).is_ok());
    let (ends, nodelay) = ("ends = [\"a\", \"b\"]", "\"tcp.nodelay\" = true");
    let link = |keys: &str| format!("{ends}\n{keys}");
    for (from, to, at, message) in [
        ("payload =", "paylod =", "paylod", "unknown key `paylod`, did you mean `payload`?"),
        ("port = 9", "port = 99999", "port", "traffic.port: invalid value: integer `99999`, expected a whole number"),
        ("\"100B\"", "\"100\"", "payload", "traffic.payload: `100`: a size needs a unit"),
        ("\"udp\"\npayload", "\"sctp\"\npayload", "transport = \"sctp\"", "traffic.transport: `sctp`: write one of"),
        ("payload =", "rate = \"1mbit\"\npayload =", "interval =", "traffic.interval: not together with traffic.rate"),
        ("[traffic]", "[run]\ntrace = true\n[traffic]", "trace", "run.trace: invalid type: boolean, expected a word"),
        (
            ends,
            &link("variation = \"1ms\""),
            "variation",
            "links.l.variation: invalid type: string \"1ms\", expected a distribution, e.g. { uniform",
        ),
        (ends, &link("loss = { mean = \"5\" }"), "loss", "links.l.loss: mean: `5`: a share needs a unit"),
        (
            ends,
            &link("steps = [\n{ at = \"1s\" },\n{ at = \"2s\", lsos = \"5%\" }]"),
            "{ at = \"2s\"",
            "links.l.steps: unknown key `lsos`",
        ),
        (
            "\"1%\", step",
            "\"1ms\", step",
            "\"path.loss\"",
            "axes: path.loss: `from`, `to` and `step` need the same unit",
        ),
        ("[\"udp\", \"tcp\"]", "[]", "\"traffic.transport\"", "axes: traffic.transport: it is empty"),
        ("[\"udp\", \"tcp\"]", "3", "\"traffic.transport\"", "axes: traffic.transport: write a list of values"),
        ("[\"udp\", \"tcp\"]", "[\"udp\", \"udp\"]", "\"path.loss\"", "axes: there are two cells `0%/udp`"),
        ("[\"udp\", \"tcp\"]", "[\"udp\", \"tpc\"]", "\"traffic.transport\"", "traffic.transport: "),
        ("\"path.loss\" =", "\"links.k.loss\" =", "\"links.k.loss\"", "links.k.loss: no link `k` (there are l)"),
        ("[axes]", "[axes", "[axes", "unclosed table"),
        ("y = \"sent\"", "y = \"snt\"", "y =", "chart sent: y: no column `snt`, did you mean `sent`?"),
        ("transport = \"udp\"\n[[", "trnsport = \"udp\"\n[[", "[claims.where]", "where: no column `trnsport`"),
        ("text = \"All\"", "text = \"All\"\nconfidence = 1.5", "confidence", "confidence = 1.5: must be"),
        ("name = \"own\"", "name = \" \"", "name = \" \"", "cells.name: \" \": must be unique"),
        ("name = \"own\"", "name = \"1%/udp\"", "name = \"1%/udp\"", "cells.name: \"1%/udp\": must be unique"),
        (nodelay, "\"path.loss\" = \"3\"", "\"path.loss\" = \"3\"", "path.loss: `3`: a share needs a unit"),
        (nodelay, "\"path.lsos\" = \"3%\"", "\"path.lsos\"", "unknown key `lsos`, did you mean `loss`?"),
        (nodelay, "\"links.k.loss\" = \"3%\"", "\"links.k.loss\"", "no link `k` (there are l)"),
        // What a cell is checked for, once it is read.
        ("to = \"b\"", "to = \"c\"", "to = \"c\"", "traffic.to: no host"),
        (ends, "ends = [\"a\", \"a\"]", "[links.l]", "links.l: both ends are `a`"),
        (
            ends,
            &link("[links.l.forward]\ndelay = \"1ms\"\nqueue = 3"),
            "[links.l.forward]",
            "links.l.forward: `queue` needs a `rate`",
        ),
        (ends, &link("delay = \"1ms\"\nqueue = 3"), "[links.l]", "links.l.forward: `queue` needs a `rate`"),
        (ends, &link("forward.trace = \"none.trace\""), "forward.trace", "links.l.forward.trace: read trace"),
        (nodelay, "\"traffic.to\" = \"c\"", "\"traffic.to\"", "traffic.to: no host"),
    ] {
        let wrong = document.replacen(from, to, 1);
        assert_ne!(wrong, document, "{from}");
        let line = wrong.lines().position(|line| line.starts_with(at)).unwrap() + 1;
        let error = error(&wrong, &[]);
        assert!(error.starts_with(&format!("two.toml:{line}: ")), "{line} {error}");
        assert!(error.contains(message) && !error.contains('\n'), "{message}\n{error}");
    }
}

#[test]
fn all_mistakes_of_a_file_are_found_at_once() {
    let document =
        DOCUMENT.replace("port = 9", "port = -1").replace("\"0.5%\" }", "\"50%\" }").replace("\"1%\",", "\"150%\",");
    let error = Sweep::of_test("two.toml", &document, &[("traffic.payload", "100")]).unwrap_err();
    let Mistakes(lines) = error.downcast().unwrap();
    assert_eq!(
        lines,
        [
            "two.toml:19: traffic.port: invalid value: integer `-1`, expected a whole number from 0 to 65535",
            "--set traffic.payload=100: `100`: a size needs a unit, e.g. \"100B\"",
            "two.toml:6: path.loss: `150%`: a share is between \"0%\" and \"100%\"",
        ]
    );
}

#[test]
fn a_mistake_of_the_command_line_names_the_flag() {
    for (key, value, message) in [
        ("links.k.loss", "5%", "no link `k` (there are l)"),
        ("links.k.loss", "5%,6%", "no link `k`"),
        ("path.loss", "120%", "`120%`: a share is between"),
        ("", "5ms", "unknown key ``"),
        ("links.l.delya", "5ms", "unknown key `delya`, did you mean `delay`?"),
        ("traffic.port.number", "5", "its parent is a value, not a table"),
        ("traffic.to", "c", "traffic.to: no host"),
        ("path.loss", "1%,5%,1%", "there are two cells `1%/udp`"),
    ] {
        let error = error(DOCUMENT, &[(key, value)]);
        assert!(error.starts_with(&format!("--set {key}={value}: ")) && error.contains(message), "{error}");
    }
}

/// Reads what is printed, and finds the same cells and the same print.
fn comes_back(origin: &str, text: &str, set: &[(&str, &str)]) -> Result<()> {
    let sweep = Sweep::of_test(origin, text, set)?;
    let printed = sweep.to_toml().unwrap();
    let again =
        Sweep::new("elsewhere/effective.toml", &printed, &[]).unwrap_or_else(|error| panic!("{error:#}\n{printed}"));
    assert_eq!((&sweep.axes, sweep.cells.len()), (&again.axes, again.cells.len()));
    for (before, after) in sweep.cells.iter().zip(&again.cells) {
        assert_eq!((&before.name, &before.axes), (&after.name, &after.axes));
        assert_eq!(before.scenario.fingerprint(), after.scenario.fingerprint(), "{}\n{printed}", before.name);
    }
    assert_eq!(again.to_toml().unwrap(), printed);
    Ok(())
}

#[test]
fn what_ships_comes_back() {
    for (name, text) in Scenario::shipped() {
        comes_back(&format!("{name}.toml"), text, &[]).unwrap();
    }
}

#[test]
fn traces_are_found_from_anywhere() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("traces")).unwrap();
    for (file, text) in [("lte.trace", "1\n2"), ("traces/wifi.trace", "1\n5")] {
        std::fs::write(directory.path().join(file), text).unwrap();
    }
    let origin = directory.path().join("mine.toml").to_string_lossy().into_owned();
    let (_, text) = Scenario::find("bufferbloat").unwrap();
    let link = Sweep::new("", &text, &[]).unwrap().scenario().links.keys().next().unwrap().clone();
    let key = format!("links.{link}.backward.trace");
    comes_back(&origin, &text, &[(&key, "lte.trace")]).unwrap();
    comes_back(&origin, &text, &[(&key, "wifi.trace"), ("directory", "traces")]).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_is_set_comes_back(
        name in select(Scenario::shipped().map(|(name, _)| name).collect::<Vec<_>>()),
        set in proptest::collection::vec(select(SETTINGS), 0..5),
    ) {
        let text = Scenario::of_name(name).unwrap();
        let link = Sweep::new(name, text, &[]).unwrap().scenario().links.keys().last().unwrap().clone();
        let set: Vec<_> = set.iter().map(|(key, value)| (key.replace("LINK", &link), *value)).collect();
        let set: Vec<_> = set.iter().map(|(key, value)| (key.as_str(), *value)).collect();
        // What is refused has no effect to print.
        let _ = comes_back(name, text, &set);
    }
}

const SETTINGS: &[(&str, &str)] = &[
    ("run.jobs", "3"),
    ("run.jobs", "auto"),
    ("run.duration", "1500ms"),
    ("run.max_foreign", "0.05%"),
    ("run.trace", "off,queues"),
    ("run.impaired", "true,false"),
    ("path.delay", "7us"),
    ("path.loss", "0,3.5%"),
    ("receive.buffer", "default,4096B"),
    ("receive.stall", "{ every = \"200ms\", length = \"40ms\" }"),
    ("tcp.buffer", "4MiB"),
    ("traffic.batch", "64"),
    ("traffic.rate", "1mbit"),
    ("traffic.interval", "2ms"),
    ("traffic.address", "\"239.1.1.1\""),
    ("traffic.transport", "quic-datagram"),
    ("links.LINK.direct", "true"),
    ("links.LINK.mtu", "9000"),
    ("links.LINK.rate", "1gbit,9600bit"),
    ("links.LINK.queue", "100"),
    ("links.LINK.forward.queue", "64kB"),
    ("links.LINK.forward.loss", "5%"),
    ("links.LINK.loss", "{ mean = \"5%\", burst = 4 }"),
    ("links.LINK.backward.loss", "{ mean = \"5%\" }"),
    ("links.LINK.backward.loss", "{ to_bad = \"1%\", to_good = \"25%\" }"),
    ("links.LINK.forward.loss", "{ list = [3, 17] }"),
    ("links.LINK.variation", "{ normal = [\"1ms\", \"100us\"], order = \"reorder\" }"),
    ("links.LINK.forward.variation", "{ exponential = \"1ms\" }"),
    ("links.LINK.reorder", "{ probability = \"1%\", by = \"5ms\" }"),
    ("links.LINK.forward.steps", "[[{ at = \"5s\", loss = \"3%\" }, { at = \"6s\", rate = \"1mbit\", queue = 3 }]]"),
    ("links.LINK.forward.repeat", "10s"),
    ("cells", "[]"),
];
