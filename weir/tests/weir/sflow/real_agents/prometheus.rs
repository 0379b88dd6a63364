//! A real Prometheus scrapes what is told of an agent whose rates are known by arithmetic.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::UdpSocket;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value;
use tempfile::TempDir;
use weir_kernel::links::Netlink;
use weir_kernel::namespaces::NetNs;
use weir_testbed::{network, turn};

use super::{ADMIN, API, Analyser, await_that, program, request, start};
use crate::sflow::known_agent::{FRAMES, IN_OCTETS, LENGTH, OUT_OCTETS, SPEED, speak};

#[test]
fn prometheus_has_the_true_rates() {
    let (Some(prometheus), Some(promtool)) = (weir_testbed::program("prometheus"), weir_testbed::program("promtool"))
    else {
        return;
    };
    let _turn = turn();
    let Some(ns) = network::namespace() else { return };
    Netlink::open(&ns).unwrap().set_loopback_up().unwrap();
    let analyser = Analyser::start(&ns);
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("prometheus.yml"), configuration()).unwrap();
    let files = [format!("--config.file={}", path("prometheus.yml")), format!("--storage.tsdb.path={}", path("data"))];
    let listen = format!("--web.listen-address={PROMETHEUS}");
    let scraper = program(&ns, prometheus).args(files).args([listen]);
    let _scraper = start(scraper, |program| program.take_stderr().unwrap(), "Server is ready");

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
            await_that("Prometheus to have scraped five times", || {
                value(&ns, &count).is_some_and(|count| count >= 5.0)
            });
            let mean = value(&ns, &format!("avg_over_time({}[30s])", series(metric))).unwrap();
            assert!((mean / truth as f64 - 1.0).abs() < 0.02, "{metric}: {mean}, and it is {truth}");
        }
        let utilization = value(&ns, &series("sflow_ifinutilization")).unwrap();
        let truth = IN_OCTETS as f64 * 8.0 / SPEED as f64 * 100.0;
        assert!((utilization / truth - 1.0).abs() < 0.02, "{utilization} %, and it is {truth}");
        let count = format!("count_over_time({flow}[30s])");
        await_that("five scrapes of the flow", || value(&ns, &count).is_some_and(|count| count >= 5.0));
        // What came in the last second sinks while the machine stands still: the scrape in the middle of all.
        let middle = value(&ns, &format!("quantile_over_time(0.5, {flow}[30s])"));
        let (bytes, truth) = (middle.unwrap(), (FRAMES * LENGTH) as f64);
        assert!((bytes / truth - 1.0).abs() < 0.1, "{bytes}, and it is {truth}");

        let flows = format!("/prometheus/flows/ALL/txt?{FLOWS}");
        let pages = [(API, "/prometheus/metrics/ALL/ALL/txt"), (API, &flows), (ADMIN, "/metrics")];
        for (server, page) in pages {
            let text = request(&ns, server, "GET", page, "");
            assert!(text.lines().any(|line| !line.starts_with('#')), "{page}: {text}");
            let tool = program(&ns, &promtool).args(["check", "metrics"]).stdin(Stdio::piped());
            let mut tool = tool.spawn().unwrap();
            tool.take_stdin().unwrap().write_all(text.as_bytes()).unwrap();
            let (status, stdout, stderr) = tool.output().unwrap();
            let said = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
            assert!(status == 0 && said.trim().is_empty(), "{page}: {status}: {said}\n{text}");
        }
    });

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

/// Scrapes interfaces and one flow definition each second.
fn configuration() -> String {
    let mut text = "global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n".to_owned();
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
