//! What `weir monitor serve` sends to other tools, at a real InfluxDB, a real Prometheus, and a reader of PlotJuggler's format.

use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_testbed::{PATIENCE, Started, await_that, http, program};

use super::serve::{Serve, Station};
use crate::service::Machine;

#[test]
fn influxdb_takes_every_point_and_every_gap() {
    let Some(influxd) = program("influxd") else { return };
    let Some(machine) = Machine::new() else { return };
    machine.run(|| {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).display().to_string();
        let config = INFLUXDB.replace("META", &at("meta")).replace("DATA", &at("data")).replace("WAL", &at("wal"));
        std::fs::write(at("influxdb.conf"), config).unwrap();
        let mut command = Command::new(influxd);
        command.args(["run", "-config", &at("influxdb.conf")]).stdin(Stdio::null());
        let _influxdb = Started::saying("Listening for signals", command);

        let text = "[[output]]\nto = \"127.0.0.1:8089\"\nformat = \"influx\"\nchannels = [\"I\"]\nrate = \"1k/s\"\n";
        let (mut serve, _dir) = Serve::configured(text);
        let mut station = Station::new(serve.listening, "coil 1,a=b", 1);
        station.metadata();
        let ask = |query: &str| {
            http::get("127.0.0.1:8086", &format!("/query?db=weir&epoch=ns&q={}", query.replace(' ', "%20"))).json()
        };
        let value = |query: &str| ask(query)["results"][0]["series"][0]["values"][0][1].clone();
        for turn in 0..300_u32 {
            station.data(10, turn % 50 == 7);
            // All are paced by what was taken, not by time: a datagram more than InfluxDB's buffer holds would be lost.
            if turn % 10 == 9 {
                let sent = u64::from(turn + 1) * 10;
                serve.await_ledger(|ledger| {
                    let samples = ledger["received"]["samples"].as_u64().unwrap();
                    samples + 10 * u64::from(turn / 50 + 1) >= sent
                });
                // The last ones may still wait for others.
                if turn % 50 == 49 {
                    await_that("most points are there", || {
                        value("SELECT count(value) FROM signal").as_u64().is_some_and(|points| points + 200 >= sent)
                    });
                }
            }
        }
        station.positions(2);
        serve.await_ledger(|ledger| ledger["streams"][0]["state"] == "ended");
        let ledger = serve.stop();
        let output = &ledger["outputs"][0];
        assert_eq!((&output["points"], &output["refused"]), (&(2940 + 6).into(), &0.into()), "{ledger:#}");

        await_that("all points are there", || value("SELECT count(value) FROM signal") == 2940);
        await_that("all gaps are there", || value("SELECT sum(missing) FROM signal_gap") == 60);
        // Each as it was: sample i is i.
        let index: f64 =
            (0..300).filter(|turn| turn % 50 != 7).flat_map(|turn| turn * 10..turn * 10 + 10).sum::<i32>().into();
        assert_eq!(value("SELECT sum(value) FROM signal").as_f64(), Some(index));
        assert_eq!(value("SELECT spread(value) FROM signal"), 2999);
        let series = ask("SHOW SERIES").to_string();
        for tag in ["channel=I", r"station=coil\\ 1\\,a\\=b", "stream=display", "unit=A"] {
            assert!(series.contains(tag), "{tag}: {series}");
        }
        assert_eq!(
            ask("SELECT count(missing) FROM signal_gap WHERE cause = 'network'").to_string().matches("[0,6]").count(),
            1
        );
    });
}

#[test]
fn prometheus_has_the_latest_value_until_it_is_stale() {
    let Some(prometheus) = program("prometheus") else { return };
    let Some(machine) = Machine::new() else { return };
    machine.run(|| {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).display().to_string();
        let (mut serve, _dir) = Serve::configured("admin = \"127.0.0.1:9519\"\nstale = \"1s\"\n");
        std::fs::write(at("prometheus.yml"), PROMETHEUS).unwrap();
        let mut command = Command::new(prometheus);
        command
            .args([&format!("--config.file={}", at("prometheus.yml")), &format!("--storage.tsdb.path={}", at("data"))]);
        command.arg("--web.listen-address=127.0.0.1:9090");
        let _prometheus = Started::saying("Server is ready", command);
        let values = || {
            let answer = http::get("127.0.0.1:9090", "/api/v1/query?query=weir_monitor_channel_value").json();
            answer["data"]["result"].as_array().unwrap().clone()
        };
        let mut station = Station::new(serve.listening, "coil", 1);
        station.metadata();
        station.data(10, false);
        // What stays is what came last; until it is stale it is sent again and again.
        await_that("the last value of these", || {
            station.data(10, false);
            let last = (station.index - 1).to_string();
            let until = Instant::now() + Duration::from_secs(1);
            let is_last = |value: &Value| value["value"][1].as_str() == Some(last.as_str());
            loop {
                if values().iter().any(is_last) {
                    return true;
                }
                if Instant::now() > until {
                    return false;
                }
                thread::sleep(Duration::from_millis(20));
            }
        });
        let labels = &values()[0]["metric"];
        let named = [("station", "coil"), ("stream", "display"), ("channel", "I"), ("unit", "A")];
        assert!(named.iter().all(|(label, value)| labels[label] == *value), "{labels}");
        await_that("nothing, for it is stale", || values().is_empty());
        // A gap is no value either.
        station.data(10, true);
        station.positions(1);
        station.data(10, false);
        station.data(10, true);
        station.positions(2);
        serve.await_ledger(|ledger| ledger["streams"][0]["state"] == "ended");
        let ledger = serve.stop();
        assert_eq!(ledger["received"]["missing"]["network"], 20, "{ledger:#}");
    });
}

#[test]
fn plotjuggler_is_sent_objects_that_fit_a_frame() {
    let reader = UdpSocket::bind("127.0.0.1:0").unwrap();
    reader.set_read_timeout(Some(PATIENCE)).unwrap();
    let to = reader.local_addr().unwrap();
    let (mut serve, _dir) =
        Serve::configured(&format!("[[output]]\nto = \"{to}\"\nformat = \"plotjuggler\"\nrate = \"100/s\"\n"));
    let mut station = Station::new(serve.listening, "coil", 1);
    station.metadata();
    for turn in 0..20 {
        station.data(10, turn == 7);
    }
    station.data(5, false);
    station.positions(2);
    serve.await_ledger(|ledger| ledger["streams"][0]["state"] == "ended");
    serve.stop();
    // The last of them, whose ten samples never came, has waited for the end.
    let (mut greatest, mut missing, mut bytes) = (Vec::new(), 0, [0; 65_535]);
    while greatest.len() < 20 || missing < 10 {
        let length = reader.recv(&mut bytes).unwrap();
        assert!(length <= 1452);
        for object in serde_json::from_slice::<Vec<Value>>(&bytes[..length]).unwrap() {
            assert!(object["timestamp"].as_f64() > Some(1.7e9), "{object}");
            let of = &object["coil"]["display"]["I"];
            missing += of["missing"].as_u64().unwrap_or(0);
            greatest.extend(of["greatest"].as_f64());
        }
    }
    let expected: Vec<f64> =
        (0..20).filter(|turn| *turn != 7).map(|turn| f64::from(turn * 10 + 9)).chain([204.0]).collect();
    assert_eq!((greatest, missing), (expected, 10));
}

const INFLUXDB: &str = r#"
reporting-disabled = true
bind-address = "127.0.0.1:8088"
[meta]
dir = "META"
[data]
dir = "DATA"
wal-dir = "WAL"
[http]
bind-address = "127.0.0.1:8086"
log-enabled = false
[monitor]
store-enabled = false
[[udp]]
enabled = true
bind-address = "127.0.0.1:8089"
database = "weir"
batch-timeout = "100ms"
read-buffer = 212992
"#;

const PROMETHEUS: &str = r#"
global:
  scrape_interval: 200ms
scrape_configs:
  - job_name: weir
    static_configs:
      - targets: ["127.0.0.1:9519"]
"#;
