//! What the documentation promises is there, and mistakes are told.

mod answers;
mod crowds;
mod strangers;
mod streams;

use std::{env, fs};

use serde_json::json;
use weir_service::http::Verb;

use super::fixture::{Reply, ask, get, serve};
use super::routes::ROUTES;
use weir_service::http::Serving;

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
        assert!(
            index.lines().any(|line| line.split('?').next().unwrap().split_whitespace().eq([verb, route.path])),
            "{index}"
        );
        // The path of the example is the route's.
        let path = route.example.split('?').next().unwrap();
        assert_eq!(path.split('/').count(), route.path.split('/').count(), "{path}");
        drop(small);
    }
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
    let links: Vec<&str> = PREFACE.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(!links.is_empty());
    for link in links {
        let (page, anchor) = link.split_once('#').unwrap_or((link, ""));
        let path = format!("{}/../../docs/{page}", env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let titles = text.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
        let anchors: Vec<String> = titles.map(|title| title.to_lowercase().replace(' ', "-")).collect();
        assert!(anchor.is_empty() || anchors.iter().any(|title| title == anchor), "{path} has no {anchor}");
    }
}

const PREFACE: &str = include_str!("../preface.md");

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
        (get(&serving, "/activeflows/ALL/tcp/json?aggMode=avg"), 400, "aggMode=avg: is to be max, sum, agent"),
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
        (put("/flow/a%0Ab/json", "{}"), 400, "name \"a\\nb\": use 1 to 128 bytes"),
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
        (put("/group/x/json", "{\"a\":[\"10.0.0.0/99\"]}"), 400, "body: `10.0.0.0/99`: write a network or an address"),
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
fn head_and_readiness() {
    let (_, serving) = serve();
    let reply = ask(&serving, "HEAD", "/agents/json", "", "").reply();
    assert_eq!((reply.status, &*reply.body), (200, ""));
    let reply = get(&serving, "/ready");
    assert_eq!((reply.status, reply.json()), (200, json!({"ready": true})));
}
