//! The dashboards, the scrapes and the rules: every query of every panel, at a real Prometheus that scrapes running services.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use weir_testbed::{Started, await_that, http};

use super::{path, read};
use crate::service::Machine;
use crate::sflow::known_agent::{DROPPED, FRAMES, HOST_GROWTH, IN_OCTETS, LENGTH, OUT_OCTETS, SPEED, speak};
use crate::weir;

/// Rates over seconds are judged.
mod alone {
    use super::*;

    #[test]
    #[ignore = "long: 8 s"]
    fn every_panel_shows_what_is_true() {
        let Some(prometheus) = weir_testbed::program("prometheus") else { return };
        let Some(machine) = Machine::new() else { return };
        let start = |arguments: &[&str]| machine.start(weir(arguments));
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("tee.toml"), TEE_CONFIG).unwrap();
        let sflow = read("systemd/sflow.toml").replace("/var/lib/weir-sflow/state", at("state").to_str().unwrap());
        std::fs::write(at("sflow.toml"), sflow + PROTECT).unwrap();
        let _tee = start(&["tee", "-c", at("tee.toml").to_str().unwrap()]);
        let _sflow = start(&["sflow", "serve", "-c", at("sflow.toml").to_str().unwrap()]);
        let watch = weir(&["loss", "watch", "--json", "--admin", "127.0.0.1:9515"]);
        let _loss = machine.run(|| Started::quiet(watch));
        // One socket reads what the tee sends, another is full: so that there are losses.
        let (sink, full, source) = (machine.udp(SINK), machine.udp(FULL), machine.udp("127.0.0.1:0"));
        for file in [
            "weir-tee.rules.yaml",
            "weir-loss.rules.yaml",
            "weir-sflow.rules.yaml",
            "weir-network.rules.yaml",
            "weir-protect.rules.yaml",
        ] {
            std::fs::write(at(file), read(&format!("prometheus/{file}"))).unwrap();
        }
        // As it ships, but for the time that it takes.
        let config = read("prometheus/prometheus.yml").replace("15s", "1s").replace("t: [\"15\"]", "t: [\"2\"]");
        std::fs::write(at("prometheus.yml"), config).unwrap();
        let mut command = Command::new(prometheus);
        command.arg(format!("--config.file={}", at("prometheus.yml").display()));
        command.arg(format!("--storage.tsdb.path={}", at("data").display()));
        command.arg(format!("--web.listen-address={PROMETHEUS}")).stdin(Stdio::null());
        let _prometheus = machine.run(|| Started::saying("Server is ready", command));

        let silent = AtomicBool::new(false);
        let is_silent = || silent.load(Ordering::Relaxed);
        thread::scope(|scope| {
            scope.spawn(|| speak(&machine.udp("127.0.0.1:0"), address("127.0.0.1:6343"), is_silent));
            scope.spawn(|| send(&source, is_silent));
            scope.spawn(|| receive(&sink, is_silent));
            let _silence = Silence(&silent);
            let (mut panels, mut said) = (0, BTreeMap::new());
            for file in dashboards() {
                let board: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
                for variable in board["templating"]["list"].as_array().unwrap() {
                    if let Some(query) = variable["query"]["query"].as_str() {
                        let (series, label) = of_variable(query);
                        await_that(query, || !ask(&machine, &format!("count by ({label}) ({series})")).is_empty());
                    }
                }
                for panel in board["panels"].as_array().unwrap().iter().filter(|panel| panel["type"] != "row") {
                    panels += 1;
                    for target in panel["targets"].as_array().unwrap() {
                        let name =
                            format!("{}: {}", board["title"].as_str().unwrap(), panel["title"].as_str().unwrap());
                        let query = in_force(target["expr"].as_str().unwrap());
                        await_that(&format!("{name}: {query}"), || !ask(&machine, &query).is_empty());
                        let letter = target["refId"].as_str().unwrap();
                        said.insert(format!("{name} {letter}"), query);
                    }
                }
            }
            assert!(panels > 60, "{panels}");
            // What is known by arithmetic; the smoothing of flows has to be over.
            for (panel, truth, within) in truths() {
                let query = said.get(panel).unwrap_or_else(|| panic!("{panel}: {:#?}", said.keys()));
                await_that(&format!("{panel}: {query}, to be {truth}: {:?}", ask(&machine, query)), || {
                    ask(&machine, query).iter().any(|value| (value - truth).abs() <= within * truth)
                });
            }
            await_that("every rule to have been evaluated", || {
                let rules = get(&machine, "/api/v1/rules");
                let groups = rules["data"]["groups"].as_array().unwrap().clone();
                let rules: Vec<Value> =
                    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect();
                let bad: Vec<&Value> = rules.iter().filter(|rule| rule["health"] == "err").collect();
                assert!(bad.is_empty(), "{bad:#?}");
                rules.len() > 30 && rules.iter().all(|rule| rule["health"] == "ok")
            });
            for record in ["agent:sflow_ifinoctets:sum", "interface:sflow_utilization:max", "agent:sflow_discards:sum"]
            {
                await_that(record, || !ask(&machine, record).is_empty());
            }
            let alerts = "ALERTS{alertname=\"WeirSocketDrops\"} or ALERTS{alertname=\"WeirDatagramsLost\"}";
            await_that("a full socket to be an alert", || !ask(&machine, alerts).is_empty());
        });
        drop(full);
    }
}

/// What a panel's query has among its values, and within what share.
fn truths() -> [(&'static str, f64, f64); 11] {
    let in_bits = 8.0 * IN_OCTETS as f64;
    let flow_bits = (8 * FRAMES * LENGTH) as f64;
    [
        ("Weir: network: Agents A", 1.0, 0.0),
        ("Weir: network: Interfaces A", 1.0, 0.0),
        ("Weir: network: Busiest interface A", in_bits / SPEED as f64 * 100.0, 0.02),
        ("Weir: network: Bits a second A", in_bits, 0.02),
        ("Weir: network: Bits a second B", 8.0 * OUT_OCTETS as f64, 0.02),
        ("Weir: network: Packets a second A", FRAMES as f64, 0.02),
        ("Weir: network: Conversations now A", flow_bits, 0.1),
        ("Weir: network: Dropped packets by reason A", DROPPED as f64, 0.2),
        ("Weir: hosts: Load A", 1.0, 0.0),
        ("Weir: hosts: Memory in use A", 100.0 * (1.0 - 3.0 / 16.0), 1e-6),
        ("Weir: hosts: Bits a second A", 8.0 * HOST_GROWTH as f64, 0.02),
    ]
}

/// A query as Grafana asks it: all of each variable, over some scrapes.
fn in_force(query: &str) -> String {
    let variables = ["agent", "ifname", "host", "instance", "destination", "port"];
    let query = query.replace("$__rate_interval", "10s");
    let query = variables.iter().fold(query, |query, name| query.replace(&format!("${name}\""), ".*\""));
    assert!(!query.contains('$'), "{query}");
    query
}

/// The series and the label of `label_values(series, label)`.
fn of_variable(query: &str) -> (String, &str) {
    let inner = query.strip_prefix("label_values(").unwrap().strip_suffix(')').unwrap();
    let (series, label) = inner.rsplit_once(',').unwrap();
    (in_force(series), label.trim())
}

/// The values that a query has now.
fn ask(machine: &Machine, query: &str) -> Vec<f64> {
    let encoded = query.bytes().fold(String::new(), |mut text, byte| {
        write!(text, "%{byte:02X}").unwrap();
        text
    });
    let answer = get(machine, &format!("/api/v1/query?query={encoded}"));
    assert_eq!(answer["status"], "success", "{query}: {answer}");
    let series = answer["data"]["result"].as_array().unwrap();
    series.iter().map(|series| series["value"][1].as_str().unwrap().parse().unwrap()).collect()
}

fn get(machine: &Machine, path: &str) -> Value {
    machine.run(|| http::get(PROMETHEUS, path).json())
}

fn dashboards() -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> =
        Path::new(&path("grafana/dashboards")).read_dir().unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 6);
    files
}

/// Datagrams through the tee, to the sink, and to the socket that nobody reads.
fn send(source: &UdpSocket, silent: impl Fn() -> bool) {
    while !silent() {
        source.send_to(&[7; 500], TEE).unwrap();
        source.send_to(&[7; 1400], FULL).unwrap();
        thread::sleep(Duration::from_millis(1));
    }
}

fn receive(sink: &UdpSocket, silent: impl Fn() -> bool) {
    sink.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    while !silent() {
        // None for a while is none.
        let _ = sink.recv(&mut [0; 2000]);
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

struct Silence<'a>(&'a AtomicBool);

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

const TEE_CONFIG: &str = r#"
admin = "127.0.0.1:9514"
[[listener]]
address = "127.0.0.1:5514"
[[destination]]
to = "127.0.0.1:5515"
"#;
/// The speaker is none: that is seen, too.
const PROTECT: &str = r#"
[protect.groups.all]
networks = ["192.0.2.0/24"]
[protect.groups.all.thresholds.udp_flood]
packets = "40k/s"
[protect.speaker]
gobgp = "127.0.0.1:50051"
[protect.hooks]
syslog = "127.0.0.1:5515"
"#;
const TEE: &str = "127.0.0.1:5514";
const SINK: &str = "127.0.0.1:5515";
const FULL: &str = "127.0.0.1:5516";
const PROMETHEUS: &str = "127.0.0.1:9090";
