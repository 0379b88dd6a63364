use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use serde_json::json;
use tempfile::TempDir;
use weir_testbed::Started;

use super::{DEFINITIONS, Scraped};
use crate::api::Settings;
use crate::api::fixture::{HOSTILE, Small, ask, ask_at, get, serve_with};
use weir_service::http::Serving;

#[test]
fn prometheus_is_told_what_is_current() {
    let (small, serving) = serve_with(Small { uplink: HOSTILE, ..Small::default() }, Settings::default());
    let all = get(&serving, "/prometheus/metrics/ALL/ALL/txt");
    assert!(all.head.contains("content-type: text/plain; version=0.0.4"), "{all:?}");
    let line = "sflow_ifinoctets{agent=\"10.0.0.1\",datasource=\"4\",host=\"leaf1\",ifname=\"up\\\"link\\\\\\n�[2J�2J���\"} 125000000.5\n";
    assert!(all.body.contains(line), "{}", all.body);
    assert!(
        all.body.contains("# TYPE sflow_mem_total untyped\n") && all.body.contains("# TYPE sflow_load_one gauge\n")
    );
    // Stale, and a text.
    assert!(!all.body.contains("10.0.0.2") && !all.body.contains("os_name"));
    let open =
        ask(&serving, "GET", "/prometheus/metrics/ALL/ALL/txt", "Accept: application/openmetrics-text\r\n", "").reply();
    assert!(open.head.contains("content-type: application/openmetrics-text; version=1.0.0"), "{open:?}");
    assert!(open.body.contains("# TYPE sflow_mem_total unknown\n") && open.body.ends_with("\n# EOF\n"));

    let target = "/prometheus/flows/ALL/txt?metric=pair-bps&key=ipsource,ipdestination&label=src&value=bytes&scale=8";
    let flows = get(&serving, target);
    let line = "pair_bps{src=\"10.9.0.\\\"2\\\"\",ipdestination=\"10.0.0.5\"} 32000000\n";
    assert!(flows.body.contains(line), "{}", flows.body);
    assert_eq!(small.flows().len(), 2);
    // The same question is the same definition; it comes again where somebody deleted it.
    get(&serving, target);
    assert_eq!(small.flows().len(), 2);
    assert!(small.shards.remove_flow("prometheus/0"));
    assert_eq!(get(&serving, target).body, flows.body);

    let refused = "/prometheus/flows/ALL/txt?metric=m&key=ipsource&value=bytes&filter=vlan%3C1";
    assert_eq!(get(&serving, refused).json()["caret"], "    ^");
    for index in 1..DEFINITIONS {
        assert_eq!(
            get(
                &serving,
                &format!("/prometheus/flows/ALL/txt?metric=m&key=ipsource&value=bytes&filter=vlan%3D{index}")
            )
            .status,
            200
        );
    }
    let reply = get(&serving, "/prometheus/flows/ALL/txt?metric=m&key=vlan&value=bytes");
    assert_eq!(reply.status, 429, "{reply:?}");
    // Those that there are go on.
    assert_eq!(get(&serving, target).status, 200);
    assert_eq!(small.flows().len(), 1 + DEFINITIONS);
}

/// A stranger's page can make a browser scrape; what it scrapes must not begin a definition.
#[test]
fn a_strangers_page_begins_no_definition() {
    let settings = Settings { origins: vec!["https://noc.example".into()], ..Settings::default() };
    let (small, serving) = serve_with(Small::default(), settings);
    let target = "/prometheus/flows/ALL/txt?metric=m&key=ipsource&value=bytes";
    let status = |method: &str, headers: &str| ask(&serving, method, target, headers, "").reply().status;
    let strangers = [
        "Origin: http://evil.example\r\n",
        "Origin: null\r\n",
        "Origin: http://evil.example\r\nSec-Fetch-Site: same-origin\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
    ];
    for headers in strangers {
        assert_eq!([status("GET", headers), status("HEAD", headers)], [403, 403], "{headers}");
    }
    assert_eq!(small.flows().len(), 1);
    // Reading is as it was: without CORS, no page sees the answer.
    assert_eq!(ask(&serving, "GET", "/version", strangers[3], "").reply().status, 200);
    for headers in [
        "",
        "Host: localhost:8008\r\nOrigin: http://localhost:8008\r\n",
        "Sec-Fetch-Site: none\r\n",
        "Sec-Fetch-Site: same-origin\r\n",
        "Origin: https://noc.example\r\nSec-Fetch-Site: cross-site\r\n",
    ] {
        assert_eq!(status("GET", headers), 200, "{headers}");
    }
    let (small, serving) = serve_with(Small::default(), Settings { read_only: true, ..Settings::default() });
    assert_eq!(get(&serving, target).status, 403);
    assert_eq!(small.flows().len(), 1);
}

#[test]
fn what_nobody_scrapes_ends() {
    let (small, scraped, begin) = (Small::default(), Scraped::new("prometheus/", super::IDLE), Instant::now());
    let at = |seconds| begin + Duration::from_secs(seconds);
    let [used, left] = ["ipsource", "ipdestination"];
    let name = |definition, seconds| scraped.name(&small.shards, &json!({"keys": definition}), at(seconds)).unwrap();
    assert_eq!([name(used, 0), name(left, 0), name(used, 299)], ["prometheus/0", "prometheus/1", "prometheus/0"]);
    scraped.end_idle(&small.shards, at(299));
    assert_eq!(small.flows().len(), 3);
    scraped.end_idle(&small.shards, at(300));
    assert_eq!(small.flows(), ["prometheus/0", "tcp"]);
    assert_eq!(name(left, 301), "prometheus/2");
}

/// Prometheus's own judgement of all that is written for it.
#[test]
fn promtool_accepts_the_metrics() {
    let Some(promtool) = weir_testbed::program("promtool") else { return };
    let (_, serving) = serve_with(Small { uplink: HOSTILE, ..Small::default() }, Settings::default());
    for target in [
        "/prometheus/metrics/ALL/ALL/txt",
        "/prometheus/flows/ALL/txt?metric=pair_bps&key=ipsource,ipdestination&label=src,dst&value=bytes",
    ] {
        let mut command = Command::new(&promtool);
        command.args(["check", "metrics"]).stdin(Stdio::piped());
        let mut checking = Started::spawn(command);
        checking.stdin().write_all(get(&serving, target).body.as_bytes()).unwrap();
        let ended = checking.wait();
        let said = ended.stdout + &ended.stderr;
        assert!(ended.status == Some(0) && said.trim().is_empty(), "{target}: {said}");
    }
}

/// A Prometheus that ends with its test.
struct Prometheus {
    _started: Started,
    address: SocketAddr,
    _place: TempDir,
}

impl Prometheus {
    /// Scrapes these paths of a server each second.
    fn start(serving: &Serving, paths: &[&str]) -> Option<Self> {
        let program = weir_testbed::program("prometheus")?;
        let place = tempfile::tempdir().unwrap();
        let jobs = paths.iter().enumerate().map(|(index, path)| {
            let (path, query) = path.split_once('?').unwrap_or((path, ""));
            let mut parameters: Vec<(String, Vec<String>)> = Vec::new();
            for (name, value) in form_urlencoded::parse(query.as_bytes()).into_owned() {
                parameters.push((name, vec![value]));
            }
            json!({
                "job_name": format!("job{index}"),
                "metrics_path": path,
                "params": parameters.into_iter().collect::<BTreeMap<_, _>>(),
                "static_configs": [{"targets": [serving.local_addr().to_string()]}],
            })
        });
        let global = json!({"scrape_interval": "1s", "scrape_timeout": "1s"});
        // JSON is YAML.
        let configuration = json!({"global": global, "scrape_configs": jobs.collect::<Vec<_>>()});
        let file = place.path().join("prometheus.yml");
        fs::write(&file, configuration.to_string()).unwrap();
        let mut command = Command::new(program);
        command.arg("--web.listen-address=127.0.0.1:0").arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.tsdb.path={}", place.path().join("data").display()));
        let mut started = Started::spawn(command);
        let listening = "\"Listening on\" address=";
        let line = started.line(listening);
        let address = line.split_once(listening).unwrap().1.split_whitespace().next().unwrap();
        Some(Self { _started: started, address: address.trim_matches('"').parse().unwrap(), _place: place })
    }

    /// The first result of a query that has one.
    fn value(&self, query: &str) -> serde_json::Value {
        let query: String = form_urlencoded::byte_serialize(query.as_bytes()).collect();
        loop {
            let reply = ask_at(self.address, "GET", &format!("/api/v1/query?query={query}"), "", "").reply();
            // It answers 503 until it is ready.
            if reply.status == 200 && !reply.json()["data"]["result"][0].is_null() {
                return reply.json()["data"]["result"][0].take();
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// In OpenMetrics, which it asks for; what a name holds and a value is comes out as it went in.
#[test]
fn a_real_prometheus_scrapes_metrics_and_flows() {
    let (_, serving) = serve_with(Small { uplink: HOSTILE, ..Small::default() }, Settings::default());
    let flows =
        "/prometheus/flows/ALL/txt?metric=pair_bps&key=ipsource,ipdestination&label=src,dst&value=bytes&scale=8";
    let Some(prometheus) = Prometheus::start(&serving, &["/prometheus/metrics/ALL/ALL/txt", flows]) else { return };
    let uplink = prometheus.value("sflow_ifinoctets{datasource=\"4\"}");
    assert_eq!(
        (&uplink["value"][1], &uplink["metric"]["ifname"]),
        (&json!("125000000.5"), &json!("up\"link\\\n�[2J�2J���"))
    );
    assert_eq!(prometheus.value("sum(sflow_mem_total)")["value"][1], "16000000000");
    assert_eq!(prometheus.value("sum(pair_bps{dst=\"10.0.0.5\"})")["value"][1], "72008000");
    assert_eq!(prometheus.value("count(up == 1)")["value"][1], "2");
}
