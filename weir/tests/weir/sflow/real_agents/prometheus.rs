//! A real Prometheus scrapes what is told of an agent whose rates are known by arithmetic.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value;
use tempfile::TempDir;
use weir_kernel::links::Netlink;
use weir_kernel::namespaces::NetNs;
use weir_testbed::{Started, await_that, network};

use super::{ADMIN, API, Analyser, request};
use crate::sflow::known_agent::{FRAMES, IN_OCTETS, LENGTH, OUT_OCTETS, SPEED, speak};

#[test]
fn prometheus_has_what_is_told() {
    scrape(1.0);
}

mod alone {
    #[test]
    #[ignore = "long: 9 s"]
    fn prometheus_has_the_true_rates() {
        super::scrape(5.0);
    }
}

/// Judges rates after so many scrapes, if it is more than one.
fn scrape(scrapes: f64) {
    let (Some(prometheus), Some(promtool)) = (weir_testbed::program("prometheus"), weir_testbed::program("promtool"))
    else {
        return;
    };
    let Some(ns) = network::namespace() else { return };
    Netlink::open(&ns).unwrap().set_loopback_up().unwrap();
    let analyser = Analyser::start(&ns);
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("prometheus.yml"), configuration()).unwrap();
    let files = [format!("--config.file={}", path("prometheus.yml")), format!("--storage.tsdb.path={}", path("data"))];
    let listen = format!("--web.listen-address={PROMETHEUS}");
    let mut scraper = Command::new(prometheus);
    scraper.args(files).arg(listen).stdin(Stdio::null());
    let _scraper = ns.run(|| Started::saying("Server is ready", scraper)).unwrap();
    let is_near = |value: f64, truth: u64, bar| scrapes == 1.0 || (value / truth as f64 - 1.0).abs() < bar;

    let (socket, silent) = (ns.run(|| UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap(), AtomicBool::new(false));
    let flow = "pair_bytes{src=\"10.9.0.1\",dst=\"10.9.0.2\"}";
    let series = |metric: &str| format!("{metric}{{agent=\"10.1.2.3\",ifname=\"swp7\",job=\"interfaces\"}}");
    thread::scope(|scope| {
        scope.spawn(|| speak(&socket, COLLECTOR.parse().unwrap(), || silent.load(Ordering::Relaxed)));
        // Silence at the end, whatever happens.
        let _silence = Silence(&silent);
        for (metric, truth) in
            [("sflow_ifinoctets", IN_OCTETS), ("sflow_ifoutoctets", OUT_OCTETS), ("sflow_ifinpkts", FRAMES)]
        {
            let count = format!("count_over_time({}[30s])", series(metric));
            await_that("Prometheus to have scraped", || value(&ns, &count).is_some_and(|count| count >= scrapes));
            let mean = value(&ns, &format!("avg_over_time({}[30s])", series(metric))).unwrap();
            assert!(is_near(mean, truth, 0.02), "{metric}: {mean}, and it is {truth}");
        }
        let utilization = value(&ns, &series("sflow_ifinutilization")).unwrap();
        assert!(is_near(utilization * SPEED as f64 / 800.0, IN_OCTETS, 0.02), "{utilization} %");
        let count = format!("count_over_time({flow}[30s])");
        await_that("scrapes of the flow", || value(&ns, &count).is_some_and(|count| count >= scrapes));
        // What came in the last second sinks while the machine stands still: the scrape in the middle of all.
        let middle = value(&ns, &format!("quantile_over_time(0.5, {flow}[30s])"));
        assert!(is_near(middle.unwrap(), FRAMES * LENGTH, 0.1), "{middle:?}");

        let flows = format!("/prometheus/flows/ALL/txt?{FLOWS}");
        let pages = [(API, "/prometheus/metrics/ALL/ALL/txt"), (API, &flows), (ADMIN, "/metrics")];
        for (server, page) in pages {
            let text = request(&ns, server, "GET", page, "");
            assert!(text.lines().any(|line| !line.starts_with('#')), "{page}: {text}");
            let mut tool = Command::new(&promtool);
            tool.args(["check", "metrics"]).stdin(Stdio::piped());
            let mut tool = Started::spawn(tool);
            tool.stdin().write_all(text.as_bytes()).unwrap();
            let ended = tool.wait();
            let said = [&*ended.stdout, &ended.stderr].concat();
            assert!(ended.status == Some(0) && said.trim().is_empty(), "{page}: {ended:?}\n{text}");
        }
    });

    if scrapes == 1.0 {
        return;
    }
    // Of an agent that has fallen silent there is nothing soon, and no old number for ever: rates of counters are stale after three
    // intervals, flows sink by e a time constant until they are less than what is told.
    for series in [series("sflow_ifinoctets"), flow.to_owned()] {
        await_that(&format!("{series} to vanish"), || value(&ns, &series).is_none());
    }
    assert!(analyser.text("/prometheus/metrics/ALL/ALL/txt").lines().all(|line| line.starts_with('#')));
}

struct Silence<'a>(&'a AtomicBool);

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Scrapes interfaces and one flow definition four times a second.
fn configuration() -> String {
    let mut text = "global: {scrape_interval: 250ms, scrape_timeout: 250ms}\nscrape_configs:\n".to_owned();
    let parameters: Vec<String> = FLOWS
        .split('&')
        .map(|pair| pair.split_once('=').unwrap())
        .map(|(name, value)| format!("{name}: [\"{value}\"]"))
        .collect();
    let jobs = [
        ("interfaces", "/prometheus/metrics/ALL/ALL/txt", String::new()),
        ("flows", "/prometheus/flows/ALL/txt", parameters.join(", ")),
    ];
    for (name, path, parameters) in jobs {
        writeln!(text, "- job_name: {name}\n  metrics_path: {path}\n  params: {{{parameters}}}").unwrap();
        writeln!(text, "  static_configs: [{{targets: [\"{API}\"]}}]").unwrap();
    }
    text
}

/// What a query gives now, if anything.
fn value(ns: &NetNs, query: &str) -> Option<f64> {
    let encoded = query.bytes().fold(String::new(), |mut text, byte| {
        write!(text, "%{byte:02X}").unwrap();
        text
    });
    let answer = request(ns, PROMETHEUS, "GET", &format!("/api/v1/query?query={encoded}"), "");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    Some(answer["data"]["result"].get(0)?["value"][1].as_str()?.parse().unwrap())
}

const FLOWS: &str = "metric=pair_bytes&key=ipsource,ipdestination&label=src,dst&value=bytes&t=1";
const COLLECTOR: &str = "127.0.0.1:6343";
const PROMETHEUS: &str = "127.0.0.1:9090";
