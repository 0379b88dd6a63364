use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket};
use serde_json::json;

use super::fixture::{Asked, HOSTILE, Reply, Small, ask, ask_at, ask_on, get, serve, serve_with};
use super::routes::{ROUTES, Verb};
use super::server::Limits;
use super::waiting::{PLACES, SHARE};
use super::{Analysis, Server, Serving, Settings};
use crate::escape::is_obeyed;

/// A call of a route's example; of a stream, its first frame.
fn example(serving: &Serving, verb: &str, target: &str, body: Option<&str>) -> Reply {
    let mut asked = ask(serving, verb, target, "", body.unwrap_or_default());
    if !target.contains("/stream") {
        return asked.reply();
    }
    let head = asked.head();
    assert!(head.starts_with("http/1.1 200 ") && head.contains("content-type: text/event-stream"), "{head}");
    let body = String::from_utf8(asked.chunk()).unwrap();
    Reply { status: 200, head, body }
}

/// All that docs, index and description promise is there; what changes something is followed by what shows it.
#[test]
fn every_route_answers() {
    let index = get(&serve().1, "/").body;
    let description = get(&serve().1, "/openapi.json").json();
    assert_eq!(description["openapi"], "3.1.0");
    for route in ROUTES {
        let (small, serving) = serve();
        let verb = route.verb.name();
        let reply = example(&serving, verb, route.example, route.body);
        let expected = if route.verb == Verb::Get { 200 } else { 204 };
        assert_eq!(reply.status, expected, "{verb} {}: {reply:?}", route.example);
        assert!(
            expected == 204
                || reply.head.contains(&format!("content-type: {}", route.media))
                || route.media.starts_with("text/plain"),
            "{reply:?}"
        );
        if route.media == "application/json" && expected == 200 {
            let json = reply.json();
            assert!(json.is_object() || json.is_array(), "{json}");
        }
        assert!(index.lines().any(|line| line.split_whitespace().eq([verb, route.path])), "{index}");
        let operation = &description["paths"][route.path][verb.to_lowercase()];
        assert_eq!(operation["summary"], route.about);
        let parameters = operation["parameters"].as_array().unwrap();
        for parameter in route.query {
            assert!(parameters.iter().any(|described| described["name"] == parameter.name), "{operation}");
        }
        // The example uses what the description knows, and the path is the route's.
        let path = route.example.split('?').next().unwrap();
        assert_eq!(path.split('/').count(), route.path.split('/').count(), "{path}");
        drop(small);
    }
    let paths = description["paths"].as_object().unwrap();
    let operations: usize = paths.values().map(|path| path.as_object().unwrap().len()).sum();
    assert_eq!(operations, ROUTES.len());
    let ids: std::collections::HashSet<_> = paths
        .values()
        .flat_map(|path| path.as_object().unwrap().values().map(|operation| operation["operationId"].to_string()))
        .collect();
    assert_eq!(ids.len(), ROUTES.len());
}

/// The page's answers are the snapshot of every answer's form.
#[test]
fn rest_page() {
    let page = PREFACE.to_owned()
        + &super::page(|verb, target, body| {
            let reply = example(&serve().1, verb, target, body);
            match reply.head.contains("application/json") {
                true => serde_json::to_string_pretty(&reply.json()).unwrap(),
                false if reply.status == 204 => "204 No Content".to_owned(),
                false => reply.body,
            }
        });
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sflow-rest.md");
    if env::var_os("WEIR_WRITE_DOCS").is_some() {
        fs::write(file, &page).unwrap();
    }
    let written = fs::read_to_string(file).unwrap_or_default();
    assert!(written == page, "docs/sflow-rest.md: write it anew, as it says itself");
}

/// Where the page sends its readers, there is what they look for.
#[test]
fn links_of_the_page_hit() {
    let sections = include_str!("../../../../docs/sflow.md")
        .lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
    let anchors: Vec<String> = sections.map(|title| title.to_lowercase().replace(' ', "-")).collect();
    let mut links = PREFACE.split("(sflow.md#").skip(1).filter_map(|rest| rest.split(')').next()).peekable();
    assert!(links.peek().is_some());
    for link in links {
        assert!(anchors.iter().any(|anchor| anchor == link), "docs/sflow.md has no {link}: {anchors:?}");
    }
}

const PREFACE: &str = include_str!("preface.md");

#[test]
fn mistakes_are_told_in_one_line() {
    let (_, serving) = serve();
    let put = |target: &str, body: &str| ask(&serving, "PUT", target, "", body).reply();
    for (reply, status, expected) in [
        (get(&serving, "/agnts/json"), 404, "there is no path \"/agnts/json\"; /agents/json is near; / lists all"),
        (get(&serving, "/nothing/at/all/like/it"), 404, "there is no path \"/nothing/at/all/like/it\"; / lists all"),
        (
            get(&serving, "/dump/leaf9/ALL/json"),
            404,
            "there is no agent \"leaf9\"; /agents/json lists those that there are",
        ),
        (get(&serving, "/dump/,/ALL/json"), 400, "agents: name agents by address or host name, or ALL"),
        (get(&serving, "/metric/ALL/json"), 400, "agents: name one agent; /dump/ALL/ALL/json has the values of all"),
        (get(&serving, &format!("/dump/ALL/{}/json", "a,".repeat(65))), 400, "metrics: name 64 at most, or ALL"),
        (get(&serving, &format!("/dump/ALL/a/json?{}", "a=b&".repeat(65))), 400, "65 parameters: 64 at most"),
        (
            get(&serving, "/metric/ALL/mean:load_one/json"),
            400,
            "\"mean:load_one\": there is no such aggregator; there are max",
        ),
        (get(&serving, "/table/ALL/sort:load_one:x/json"), 400, "\"sort:load_one:x\": write sort:NAME:10, or"),
        (get(&serving, "/activeflows/ALL/udp/json"), 404, "there is no flow definition \"udp\"; /flow/json lists"),
        (get(&serving, "/activeflows/ALL/udp/stream"), 404, "there is no flow definition \"udp\"; /flow/json lists"),
        (
            get(&serving, "/activeflows/ALL/tcp/json?maxFlows=0"),
            400,
            "maxFlows=0: is to be a whole number from 1 to 10000",
        ),
        (get(&serving, "/activeflows/ALL/tcp/json?minValue=NaN"), 400, "minValue=NaN: is to be a number from 0 to any"),
        (get(&serving, "/activeflows/ALL/tcp/json?aggMode=avg"), 400, "aggMode=avg: is to be max, sum, edge"),
        (
            get(&serving, "/activeflows/ALL/tcp/json?n=30"),
            400,
            "unknown parameter \"n\": this path takes maxFlows, minValue, agg",
        ),
        (
            get(&serving, "/metric/ALL/ifinoctet/json"),
            400,
            "metrics: there is no metric or flow definition \"ifinoctet\", did you mean `ifinoctets`?",
        ),
        (get(&serving, "/metric/ALL/max:4.nonsense/json"), 400, "metrics: there is no metric or flow definition"),
        (get(&serving, "/dump/ALL/ifname,nonsense/json"), 400, "metrics: there is no metric or flow definition"),
        (get(&serving, "/table/ALL/sort:nonsense:-1/json"), 400, "metrics: there is no metric or flow definition"),
        (get(&serving, "/prometheus/metrics/ALL/nonsense/txt"), 400, "metrics: there is no metric or flow definition"),
        (
            get(&serving, "/dump/ALL/tcp/json"),
            400,
            "metrics: \"tcp\" is a flow definition: /flowvalue/ALL/tcp/json has",
        ),
        (
            get(&serving, "/dump/ALL/ALL/json?os_nmae=linux"),
            400,
            "condition: there is no metric `os_nmae`, did you mean `os_name`?",
        ),
        (get(&serving, "/metric/ALL/load_one/json?ifspeed=10G"), 400, "condition: `ifspeed` is a number, never `10G`"),
        (
            get(&serving, "/flowvalue/ALL/tcp/json?os_name=linxu"),
            400,
            "condition: `os_name` is unknown or other or linux",
        ),
        (
            put("/threshold/x/json", r#"{"metric":"tcp","value":1,"filter":{"ifsped":["1"]}}"#),
            400,
            "filter: there is no metric `ifsped`, did you mean `ifspeed`?",
        ),
        (get(&serving, "/version?x=1"), 400, "unknown parameter \"x\": this path takes none"),
        (get(&serving, "/events/json?eventID=x"), 400, "eventID=x: is to be a whole number from -1 to any"),
        (get(&serving, "/flow/udp/json"), 404, "there is no flow definition \"udp\""),
        (get(&serving, "/threshold/none/json"), 404, "there is no threshold \"none\""),
        (get(&serving, "/group/none/json"), 404, "there is no group \"none\""),
        (put("/flow/x/json", ""), 400, "the body is empty; an example: {\"keys\""),
        (
            put("/threshold/x/json", "{\"metric\":\"a\",\n \"vlue\":1}"),
            400,
            "body: unknown field `vlue`, expected one of `metric`",
        ),
        (put("/flow/x/json", "{\"keys\":\"a\",\n \"t\"}"), 400, "body: expected `:` at line 2 column 5; an example: {"),
        (put("/flow/x/json", "[1]"), 400, "body: invalid type: sequence, expected a map"),
        (put("/flow/a%2Fb/json", "{}"), 400, "name \"a/b\": use 1 to 128 bytes without control characters and slashes"),
        (put("/flow/a%0Ab/json", "{}"), 400, "name \"a\\u{a}b\": use 1 to 128 bytes"),
        (put("/flow/a%C2%9Bb/json", "{}"), 400, "name \"a\\u{9b}b\": use 1 to 128 bytes"),
        (put("/flow/a%E2%80%AEb/json", "{}"), 400, "name \"a\\u{202e}b\": use 1 to 128 bytes"),
        (
            put("/threshold/%E2%81%A6/json", r#"{"metric":"m","value":1}"#),
            400,
            "name \"\\u{2066}\": use 1 to 128 bytes",
        ),
        (put("/group/%7F/json", "{}"), 400, "name \"\\u{7f}\": use 1 to 128 bytes"),
        (put("/group/x/json", r#"{"a\u202eb":["10.0.0.0/8"]}"#), 400, "name \"a\\u{202e}b\": use 1 to 128 bytes"),
        (
            put("/threshold/x/json", "{\"metric\":\"m\",\"value\":1,\"timeout\":0}"),
            400,
            "timeout: 0 is not 1 to 86400 seconds",
        ),
        (put("/group/x/json", "{\"a\":[\"10.0.0.0/99\"]}"), 400, "body: invalid IP address syntax"),
        (
            put(
                "/topology/json",
                "{\"links\":{\"l\":{\"node1\":\"a\",\"port1\":\"b\",\"node2\":\"c\",\"port2\":\"d\"}}}",
            ),
            400,
            "link \"l\": there is no node \"a\" among the nodes",
        ),
        (put("/version", ""), 405, "PUT is not for this path: it takes GET, HEAD, OPTIONS"),
        (get(&serving, "/prometheus/flows/ALL/txt?metric=m&key=a"), 400, "value: this path needs it"),
        (
            get(&serving, "/prometheus/flows/ALL/txt?metric=m&key=a,b&label=x,x&value=bytes"),
            400,
            "label: two keys have the label",
        ),
        (
            get(&serving, "/prometheus/flows/ALL/txt?metric=m&key=a&label=x,y&value=bytes"),
            400,
            "label: there are more labels",
        ),
    ] {
        assert_eq!(reply.status, status, "{reply:?}");
        let error = reply.error();
        assert!(error.starts_with(expected) && !error.contains('\n'), "{error}");
    }
    let reply = put("/version", "");
    assert!(reply.head.contains("\r\nallow: get, head, options\r\n"), "{reply:?}");
}

#[test]
fn a_wrong_filter_is_pointed_at() {
    let (small, serving) = serve();
    let body = r#"{"keys":"ipsource","value":"bytes","filter":"größe=1&vlan==7"}"#;
    let reply = ask(&serving, "PUT", "/flow/x/json", "", body).reply();
    let expected = json!({
        "error": "filter: write = once",
        "key": "filter",
        "text": "größe=1&vlan==7",
        // In bytes, of which ö and ß have two; the caret is below the second sign of equality.
        "offset": 15,
        "caret": "             ^",
    });
    assert_eq!((reply.status, reply.json()), (400, expected));
    assert!(!small.flows().contains_key("x"));
}

#[test]
fn what_is_put_is_there_until_it_is_deleted() {
    let (_, serving) = serve();
    for route in ROUTES.iter().filter(|route| route.verb == Verb::Put) {
        let target = route.example.replace("/tcp/", "/new/").replace("/busy/", "/new/").replace("/sites/", "/new/");
        let put = || ask(&serving, "PUT", &target, "", route.body.unwrap()).reply().status;
        // Again is the same.
        assert_eq!([put(), put()], [204, 204], "{target}");
        let body: serde_json::Value = serde_json::from_str(route.body.unwrap()).unwrap();
        let there = get(&serving, &target).json();
        for (key, value) in body.as_object().unwrap() {
            assert!(
                there[key] == *value || there[key].as_f64() == value.as_f64() && value.is_number(),
                "{key}: {there}"
            );
        }
        if !target.starts_with("/topology") {
            let delete = || ask(&serving, "DELETE", &target, "", "").reply().status;
            assert_eq!([delete(), delete(), get(&serving, &target).status], [204, 404, 404], "{target}");
        }
    }
}

/// What is taken otherwise than it was asked for, or names what is not there yet, is said at once and as long as it lasts.
#[test]
fn what_is_not_quite_as_asked_is_said() {
    let (_, serving) = serve();
    let put = |target: &str, body: &str| ask(&serving, "PUT", target, "", body).reply();
    let reply = put("/flow/few/json", r#"{"keys":"ipsource","n":1}"#);
    assert_eq!((reply.status, reply.json()), (200, json!({"notes": ["n: 1 is not 5 to 1000: 5 is taken"]})));

    let missing = "metric: there is no metric or flow definition `later`, did you mean ";
    let reply = put("/threshold/x/json", r#"{"metric":"later","value":1}"#);
    assert!(reply.status == 200 && reply.json()["notes"][0].as_str().unwrap().starts_with(missing), "{reply:?}");
    let told = || [get(&serving, "/threshold/x/json").json(), get(&serving, "/threshold/json").json()["x"].clone()];
    let [one, listed] = told();
    assert!(one == listed && one["notes"][0].as_str().unwrap().starts_with(missing), "{one}");
    // Whoever puts back what was read need not take it out.
    assert_eq!(put("/threshold/x/json", &one.to_string()).status, 200);
    assert_eq!(put("/flow/later/json", r#"{"keys":"ipsource","notes":["of before"]}"#).status, 204);
    assert!(told().iter().all(|told| told.get("notes").is_none() && told["metric"] == "later"));
    assert_eq!(put("/threshold/x/json", &one.to_string()).status, 204);
}

#[test]
fn metrics_leave_out_what_is_stale_and_what_conditions_exclude() {
    let (_, serving) = serve();
    let metric = |selector: &str| get(&serving, &format!("/metric/ALL/{selector}/json{}", "")).json()[0].clone();
    // 10.0.0.2 has 77, too old.
    let max = metric("ifinoctets");
    assert_eq!(
        (&max["metricValue"], &max["dataSource"], &max["agent"]),
        (&json!(125_000_000.5), &json!("4"), &json!("10.0.0.1"))
    );
    assert_eq!((&max["metricN"], &max["metricStale"], &max["interval"]), (&json!(2), &json!(1), &json!(20_000)));
    assert_eq!(
        (&max["lastUpdate"], &max["lastUpdateMin"], &max["lastUpdateMax"]),
        (&json!(2037), &json!(2034), &json!(2037))
    );
    let sum = metric("sum:ifinoctets");
    assert_eq!((&sum["metricValue"], sum.get("agent")), (&json!(125_001_000.5), None));
    let stale = get(&serving, "/metric/10.0.0.2/ifinoctets/json").json()[0].clone();
    assert_eq!((stale.get("metricValue"), &stale["metricStale"]), (None, &json!(1)));
    assert_eq!(metric("any:os_name")["metricValue"], "linux");
    assert_eq!(metric("1.ifinoctets")["metricValue"], 1000.0);
    // As scripts for sFlow-RT ask after an event.
    let flow = get(&serving, "/metric/10.0.0.1/4.tcp/json").json()[0].clone();
    assert_eq!((&flow["metricName"], &flow["topKeys"][0]["key"]), (&json!("4.tcp"), &json!("10.9.0.1,10.0.0.5")));
    assert_eq!((&flow["metricValue"], &flow["low"], &flow["high"]), (&json!(9e6), &json!(6.75e6), &json!(11.25e6)));

    let dump = |query: &str| {
        let rows = get(&serving, &format!("/dump/ALL/ifinoctets;load_one/json{query}")).json();
        let names = rows
            .as_array()
            .unwrap()
            .iter()
            .map(|row| format!("{} {}", row["agent"].as_str().unwrap(), row["dataSource"].as_str().unwrap()));
        names.collect::<Vec<_>>()
    };
    assert_eq!(dump(""), ["10.0.0.1 1", "10.0.0.1 4", "10.0.0.1 2.1", "2001:db8::3 2.1"]);
    // A source's own metric counts; of the agent's other sources, where it has none.
    assert_eq!(dump("?ifspeed=1000000000"), ["10.0.0.1 1", "10.0.0.1 2.1"]);
    assert_eq!(dump("?os_name=windows&os_name=lin*"), ["2001:db8::3 2.1"]);
    assert!(dump("?os_name=linux&ifspeed=1e9").is_empty());

    let (_, hostile) = serve_with(Small { uplink: HOSTILE, ..Small::default() }, Settings::default());
    let names = get(&hostile, "/dump/leaf1/4.ifname/json");
    assert_eq!(names.json()[0]["metricValue"], HOSTILE);
    // Nor is any of it raw.
    assert!(!names.body.contains(|c| is_obeyed(c) && c != '\n'), "{names:?}");

    let rows = get(&serving, "/table/ALL/load_one,sort:ifinoctets:-1/json").json();
    assert_eq!(rows.as_array().unwrap().len(), 1);
    assert_eq!((&rows[0][0]["metricValue"], &rows[0][1]["metricValue"]), (&json!(0.5), &json!(125_000_000.5)));
}

#[test]
fn a_local_analyser_is_not_for_strangers_pages() {
    let settings =
        Settings { hosts: vec!["weir.lan".into()], origins: vec!["https://noc.example".into()], ..Settings::default() };
    let (small, serving) = serve_with(Small::default(), settings);
    let status = |method: &str, headers: &str| ask(&serving, method, "/flow/tcp/json", headers, "{}").reply().status;
    for (host, expected) in [
        ("localhost:8008", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8008", 200),
        ("weir.lan:8008", 200),
        ("evil.example", 421),
        ("localhost.evil.example:8008", 421),
        ("127.0.0.1.evil.example", 421),
        ("", 421),
    ] {
        assert_eq!(status("GET", &format!("Host: {host}\r\n")), expected, "{host:?}");
        assert_eq!(status("PUT", &format!("Host: {host}\r\n")), if expected == 200 { 204 } else { 421 }, "{host:?}");
    }
    let stranger = "Host: localhost\r\nOrigin: https://evil.example\r\n";
    assert_eq!([status("PUT", stranger), status("DELETE", stranger)], [403, 403]);
    assert_eq!(status("PUT", "Host: localhost:8008\r\nOrigin: http://localhost:8008\r\n"), 204);
    assert_eq!(status("PUT", "Host: localhost\r\nOrigin: null\r\n"), 403);
    assert_eq!(status("PUT", "Host: localhost\r\nOrigin: https://noc.example\r\n"), 204);
    assert!(small.flows().contains_key("tcp"));
    // No other page may read, either; the paths that there are not do not tell more.
    let asked =
        |origin: &str| ask(&serving, "OPTIONS", "/flow/tcp/json", &format!("Origin: {origin}\r\n"), "").reply().head;
    assert!(!asked("https://evil.example").contains("access-control"));
    let allowed = asked("https://noc.example");
    assert!(
        allowed.starts_with("http/1.1 204 ") && allowed.contains("\r\nallow: get, put, delete, head, options\r\n"),
        "{allowed}"
    );
    assert!(allowed.contains("access-control-allow-origin: https://noc.example"), "{allowed}");
    assert_eq!(ask(&serving, "GET", "/nowhere", "Host: evil.example\r\n", "").reply().status, 421);
    assert!(
        !ask(&serve().1, "GET", "/version", "Origin: https://noc.example\r\n", "")
            .reply()
            .head
            .contains("access-control")
    );

    let (_, serving) = serve_with(Small::default(), Settings { read_only: true, ..Settings::default() });
    let reply = ask(&serving, "PUT", "/flow/tcp/json", "", "{}").reply();
    assert_eq!((reply.status, reply.error()), (403, "the API is read only here".to_owned()));
}

/// A server of all addresses is reached by way of loopback as well.
#[test]
fn the_address_asked_decides_not_the_address_bound() {
    let server = Server::bind("0.0.0.0:0".parse().unwrap()).unwrap();
    let address = (Ipv4Addr::LOCALHOST, server.local_addr().port()).into();
    let _serving = server.serve(Arc::new(Small::default()), Settings::default()).unwrap();
    let asked = |host: &str| ask_at(address, "GET", "/version", &format!("Host: {host}\r\n"), "").reply().status;
    assert_eq!([asked("evil.example"), asked("localhost")], [421, 200]);
}

#[test]
fn head_and_readiness() {
    let (_, serving) = serve_with(Small { failure: Some("no socket"), ..Small::default() }, Settings::default());
    let reply = ask(&serving, "HEAD", "/agents/json", "", "").reply();
    assert_eq!((reply.status, &*reply.body), (200, ""));
    let reply = get(&serving, "/ready");
    assert_eq!((reply.status, reply.json()), (503, json!({"error": "no socket", "ready": false})));
}

/// The answer comes from the event, not from a tick: there is none.
#[test]
fn a_long_poll_is_answered_by_the_event() {
    let (small, serving) = serve();
    let ids = |reply: &Reply, key: &str| -> Vec<u64> {
        reply.json().as_array().unwrap().iter().map(|record| record[key].as_u64().unwrap()).collect()
    };
    assert_eq!(ids(&get(&serving, "/events/json?eventID=-1&maxEvents=3"), "eventID"), [7, 6, 5]);
    assert_eq!(ids(&get(&serving, "/events/json?thresholdID=drops"), "eventID"), [7]);
    assert!(ids(&get(&serving, "/events/json?eventID=7"), "eventID").is_empty());
    assert_eq!(ids(&get(&serving, "/flows/json?name=web"), "flowID"), [2, 1]);
    assert!(ids(&get(&serving, "/flows/json?name=dns"), "flowID").is_empty());

    let waiting: Vec<Asked> = (0..20)
        .map(|_| ask(&serving, "GET", "/events/json?eventID=7&thresholdID=wanted&timeout=600", "", ""))
        .chain([ask(&serving, "GET", "/flows/json?flowID=2&timeout=600", "", "")])
        .collect();
    // Neither the wrong threshold nor the wrong log answers them.
    small.cross("busy", 1);
    let id = small.cross("wanted", 2);
    small.complete("dns");
    let mut replies: Vec<Reply> = waiting.into_iter().map(Asked::reply).collect();
    assert_eq!(ids(&replies.pop().unwrap(), "flowID"), [3]);
    for reply in replies {
        assert_eq!(ids(&reply, "eventID"), [id]);
    }
    // A poll whose time is over has an answer, too.
    assert_eq!(get(&serving, "/events/json?eventID=9&timeout=0.01").body, "[]");
}

#[test]
fn streams_tell_each_event_once_and_go_on_where_they_were() {
    let (small, serving) = serve();
    let mut now = ask(&serving, "GET", "/events/stream", "", "");
    let mut again = ask(&serving, "GET", "/events/stream", "Last-Event-ID: 5\r\n", "");
    let mut drops = ask(&serving, "GET", "/events/stream?thresholdID=drops&eventID=-1", "", "");
    for stream in [&mut now, &mut again, &mut drops] {
        assert!(stream.head().contains("content-type: text/event-stream"));
    }
    let frame = |stream: &mut Asked| String::from_utf8(stream.chunk()).unwrap();
    let id = |frame: &str| frame.split_once("id: ").unwrap().1.split('\n').next().unwrap().parse::<u64>().unwrap();
    assert_eq!(id(&frame(&mut again)), 6);
    assert_eq!(id(&frame(&mut again)), 7);
    assert_eq!(id(&frame(&mut drops)), 7);
    // Its head came before the event did.
    small.cross("busy", 9);
    let told = frame(&mut now);
    let (head, data) = told.split_once("data: ").unwrap();
    assert_eq!(head, "id: 8\nevent: threshold\n");
    assert_eq!(serde_json::from_str::<serde_json::Value>(data.trim_end()).unwrap()["eventID"], 8);
    assert!(told.ends_with("\n\n") && told.matches("\n\n").count() == 1, "{told:?}");
    assert_eq!(id(&frame(&mut again)), 8);

    // However soon after the head an event comes, the first frame is no sign of life: it is the event.
    for _ in 0..200 {
        let mut soon = ask(&serving, "GET", "/events/stream", "", "");
        soon.head();
        let id_told = small.cross("busy", 10);
        assert_eq!(id(&frame(&mut soon)), id_told);
    }

    let mut flows = ask(&serving, "GET", "/activeflows/leaf1/tcp/stream?interval=0.1&maxFlows=1", "", "");
    flows.head();
    for _ in 0..2 {
        let told = frame(&mut flows);
        let data = told.strip_prefix("event: flows\ndata: ").unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(data).unwrap()[0]["value"], 5e6);
    }
    // The stream ends with the definition.
    small.delete_flow("tcp");
    while !flows.chunk().is_empty() {}
}

/// From an address of loopback's network, as another host would ask.
fn ask_from(last: u8, serving: &Serving, target: &str) -> Asked {
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::empty(), None).unwrap();
    bind(socket.as_raw_fd(), &SockaddrIn::new(127, 0, 0, last, 0)).unwrap();
    connect(socket.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, serving.local_addr().port())).unwrap();
    ask_on(socket.into(), "GET", target, "", "")
}

/// Those who wait have places, and each address a share of them; one who leaves gives its place back, and all others are
/// served meanwhile.
#[test]
fn places_to_wait_are_bounded_and_given_back() {
    let (_, serving) = serve();
    let poll = "/events/json?eventID=7&timeout=0.01";
    let mut streams: Vec<Asked> = Vec::new();
    for last in 1..=4 {
        for _ in 0..PLACES / SHARE {
            streams.push(ask_from(last, &serving, "/events/stream"));
            streams.last_mut().unwrap().head();
        }
        let reply = ask_from(last, &serving, poll).reply();
        assert_eq!(reply.status, 503, "{reply:?}");
        let expected = if last < 4 {
            format!("64 clients at 127.0.0.{last}, the share of one address,")
        } else {
            "256 clients".into()
        };
        assert!(reply.error().starts_with(&format!("{expected} wait or follow a stream already")), "{reply:?}");
        // Others have theirs.
        assert_eq!(ask_from(9, &serving, poll).reply().status, if last < 4 { 200 } else { 503 });
    }
    assert_eq!(get(&serving, "/events/json").status, 200);
    streams.pop();
    // It is noticed when the kernel has told.
    while ask_from(9, &serving, poll).reply().status == 503 {
        thread::yield_now();
    }
}

/// Frames are made as far as the client reads; who does not read at all is ended, though it waits.
#[test]
fn a_stream_that_nobody_reads_ends() {
    let server = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let limits = Limits { connections: 4, share: 4, patience: Duration::from_millis(500) };
    let small = Arc::new(Small { wide: 4 << 20, ..Small::default() });
    let serving = server.with(limits).serve(small.clone(), Settings::default()).unwrap();
    let mut unread = ask(&serving, "GET", "/activeflows/ALL/tcp/stream?interval=0.1&maxFlows=1", "", "");
    unread.head();
    while serving.connections() > 0 {
        thread::yield_now();
    }
    // The kernel's buffers, and one in ours.
    let made = small.ranked.load(Ordering::Relaxed);
    assert!((1..8).contains(&made), "{made} frames of 4 MiB");
}

#[test]
fn equal_streams_share_their_frames() {
    const CLIENTS: usize = 8;
    let (small, serving) = serve();
    let held = small.gate.lock().unwrap();
    let target = "/activeflows/ALL/tcp/stream?interval=60";
    let mut streams: Vec<Asked> = (0..CLIENTS).map(|_| ask(&serving, "GET", target, "", "")).collect();
    for stream in &mut streams {
        stream.head();
    }
    drop(held);
    let first = streams.iter_mut().map(Asked::chunk).collect::<Vec<_>>();
    assert!(first.iter().all(|frame| *frame == first[0]));
    // Whoever came while the first was made asks for a newer one, all together.
    let made = small.ranked.load(Ordering::Relaxed);
    assert!(made < CLIENTS, "{made}");
    let reply = get(&serving, "/activeflows/ALL/tcp/stream?maxFlows=1001");
    assert!(reply.error().starts_with("maxFlows=1001: is to be a whole number from 1 to 1000"));
}

#[test]
fn long_work_leaves_a_thread_to_others() {
    let (small, serving) = serve();
    let held = small.gate.lock().unwrap();
    let asked: Vec<Asked> = (1..5)
        .map(|most| ask(&serving, "GET", &format!("/activeflows/ALL/tcp/json?maxFlows={most}"), "", ""))
        .collect();
    while small.ranked.load(Ordering::Relaxed) == 0 {
        thread::yield_now();
    }
    let version = ask(&serving, "GET", "/version", "", "");
    version.0.get_ref().set_read_timeout(Some(Duration::from_secs(8))).unwrap();
    assert_eq!(version.reply().status, 200);
    assert_eq!(small.ranked.load(Ordering::Relaxed), 1);
    drop(held);
    for asked in asked {
        assert_eq!(asked.reply().status, 200);
    }
}

/// A page about many agents is made beside the thread that serves all connections.
#[test]
fn a_page_that_takes_long_holds_up_nobody() {
    for target in ["/prometheus/metrics/ALL/ifinoctets/txt", "/dump/ALL/ifinoctets/json", "/table/ALL/ifinoctets/json"]
    {
        let (small, serving) = serve();
        let held = small.gate.lock().unwrap();
        let asked: Vec<Asked> = (0..3).map(|_| ask(&serving, "GET", target, "", "")).collect();
        while small.looked.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        let version = ask(&serving, "GET", "/version", "", "");
        version.0.get_ref().set_read_timeout(Some(Duration::from_secs(8))).unwrap();
        assert_eq!(version.reply().status, 200, "{target}");
        assert_eq!(small.looked.load(Ordering::Relaxed), 1, "{target}");
        drop(held);
        for asked in asked {
            let reply = asked.reply();
            assert!(reply.status == 200 && reply.body.contains("ifinoctets"), "{reply:?}");
        }
    }
}

/// One address has a share of the connections: what it has too many costs its own.
#[test]
fn no_address_takes_all_connections() {
    let serving = serve_limited(Limits { connections: 8, share: 2, patience: Duration::from_secs(1000) });
    let mut other = ask_from(2, &serving, "/events/stream?eventID=6");
    other.head();
    let mut own: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(serving.local_addr()).unwrap()).collect();
    assert_eq!(own[0].read(&mut [0]).unwrap(), 0);
    let figures = get(&serving, "/analyzer/json").json();
    assert_eq!((&figures["connections_ended_share"], &figures["connections_ended_full"]), (&json!(2), &json!(0)));
    assert_eq!(own[1].read(&mut [0]).unwrap(), 0);
    assert!(String::from_utf8(other.chunk()).unwrap().starts_with("id: 7\n"));
}

fn serve_limited(limits: Limits) -> Serving {
    let server = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap().with(limits);
    server.serve(Arc::new(Small::default()), Settings::default()).unwrap()
}

#[test]
fn silent_and_slow_clients_hold_nothing() {
    let serving = serve_limited(Limits { connections: 4, share: 4, patience: Duration::from_secs(1000) });
    let mut stream = ask(&serving, "GET", "/events/stream?eventID=6", "", "");
    stream.head();
    let mut silent: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(serving.local_addr()).unwrap()).collect();
    assert_eq!(get(&serving, "/version").status, 200);
    // The oldest that did not wait had to go; whoever follows a stream still does.
    assert_eq!(silent[0].read(&mut [0]).unwrap(), 0);
    assert!(String::from_utf8(stream.chunk()).unwrap().starts_with("id: 7\n"));

    let serving = serve_limited(Limits { connections: 4, share: 4, patience: Duration::from_millis(100) });
    let mut half = TcpStream::connect(serving.local_addr()).unwrap();
    half.write_all(b"PUT /flow/x/json HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{").unwrap();
    let mut answer = Vec::new();
    let _ = half.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains(" 204 "));
    // Who does not read what is large is ended, too.
    let server = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let limits = Limits { connections: 4, share: 4, patience: Duration::from_millis(100) };
    let large = Small { more: 200_000, ..Small::default() };
    let unread = server.with(limits).serve(Arc::new(large), Settings::default()).unwrap();
    let mut asked = ask(&unread, "GET", "/agents/json", "", "");
    asked.head();
    while unread.connections() > 0 {
        thread::yield_now();
    }
    let mut rest = Vec::new();
    let _ = asked.0.read_to_end(&mut rest);
    assert!(!rest.ends_with(b"}\n\r\n0\r\n\r\n"), "all {} bytes came", rest.len());
    // A long poll is no standstill.
    let begin = Instant::now();
    assert_eq!(get(&serving, "/events/json?eventID=7&timeout=1").body, "[]");
    assert!(begin.elapsed() >= Duration::from_secs(1));
}

#[test]
fn what_is_too_long_is_refused() {
    let (_, serving) = serve();
    let reply = {
        let mut stream = TcpStream::connect(serving.local_addr()).unwrap();
        let length = 2 << 20;
        let head = format!(
            "PUT /group/x/json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        // The server may have answered before all is sent.
        let _ = stream.write_all(&vec![b' '; length]);
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).map(|()| answer)
    };
    // Where the rest arrived after the end, the kernel takes the answer away.
    if let Ok(answer) = reply {
        assert_eq!(&answer, b"HTTP/1.1 413");
    }
    let mut stream = TcpStream::connect(serving.local_addr()).unwrap();
    let _ = stream.write_all(format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(100_000)).as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 2"));
    assert_eq!(get(&serving, "/version").status, 200);
}

/// An answer about all agents is made as far as the client reads it.
#[test]
fn large_answers_are_made_while_they_are_read() {
    const MORE: u32 = 200_000;
    let (small, serving) = serve_with(Small { more: MORE, ..Small::default() }, Settings::default());
    let mut asked = ask(&serving, "GET", "/prometheus/metrics/ALL/ifinoctets/txt", "", "");
    asked.head();
    let first = asked.chunk();
    assert!(first.starts_with(b"# HELP sflow_ifinoctets "));
    // What sockets and the server's buffer hold at most is far less than 15 MB: it waits until more is read.
    let before = small.looked.load(Ordering::Relaxed);
    assert!(before < MORE as usize, "{before}");
    assert_eq!(get(&serving, "/version").status, 200);
    let mut lines = first.iter().filter(|byte| **byte == b'\n').count();
    loop {
        let chunk = asked.chunk();
        if chunk.is_empty() {
            break;
        }
        lines += chunk.iter().filter(|byte| **byte == b'\n').count();
    }
    // Help, type, and the two of 10.0.0.1; that of 10.0.0.2 is stale.
    assert_eq!(lines, 4 + MORE as usize);

    let reply = get(&serving, "/agents/json");
    assert_eq!(reply.json().as_object().unwrap().len(), 3 + MORE as usize);
}
