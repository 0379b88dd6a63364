//! Every path: what it is for, what it may be asked, and who answers.

use std::sync::Arc;

use axum::http::StatusCode;

use super::{Route, get, index};
use crate::api::call::{ANY, Kind, Parameter};
use crate::api::problem::{Answer, Problem};
use crate::api::{Api, Call, agents, flows, live, metrics, openapi, page, settings, streams};
use crate::prometheus;

const fn text(name: &'static str, about: &'static str) -> Parameter {
    Parameter { name, kind: Kind::Text, about }
}

const fn whole(name: &'static str, least: i64, most: i64, default: Option<i64>, about: &'static str) -> Parameter {
    Parameter { name, kind: Kind::Whole { least, most, default }, about }
}

const fn real(name: &'static str, least: f64, most: f64, default: f64, about: &'static str) -> Parameter {
    Parameter { name, kind: Kind::Real { least, most, default }, about }
}

const MAX_FLOWS: Parameter = whole("maxFlows", 1, 10_000, Some(100), "how many, the largest first");
const MIN_VALUE: Parameter = real("minValue", 0.0, f64::MAX, 0.0, "the least value of a flow that is told");
const AGG_MODE: Parameter = Parameter {
    name: "aggMode",
    kind: Kind::Choice { of: &["max", "sum", "edge"] },
    about: "how reports of one flow by several data sources are joined: `max` takes the largest (it passes several hops), `sum` \
            adds them, `edge` takes what enters at the edge of the topology",
};
const TIMEOUT: Parameter = real("timeout", 0.0, 600.0, 0.0, "seconds to wait where there is nothing yet (long poll)");
const THRESHOLD_ID: Parameter = text("thresholdID", "only events of this threshold");

const PLAIN: &str = "text/plain; charset=utf-8";
const SSE: &str = "text/event-stream";

/// A handler of what waits.
fn never(_: &Arc<Api>, _: &Call) -> Answer {
    Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "this path has no answer"))
}

pub(crate) static ROUTES: &[Route] = &[
    get("/", "/", "This index; a browser is shown the page.", index).media(PLAIN),
    get("/version", "/version", "The software and its version.", agents::version).media(PLAIN),
    get("/ready", "/ready", "Whether it receives and analyses; 503 with the reason if not.", agents::ready),
    get("/openapi.json", "/openapi.json", "The OpenAPI 3.1 description of all this.", openapi::describe),
    get("/analyzer/json", "/analyzer/json", "The analyser's own figures: samples by kind, datagrams that never came, why there was no rate and how often \
         (`rates_absent_REASON`), and of each table how full it is, how full it may be, and what it refused or evicted; `connections_ended_full` and \
         `connections_ended_share`: clients that gave way to newer ones, of all or of their own address. Further \
         tables are `newcomers`, `sources`, `flows`, `offenders`, `crossings`.", agents::analyzer),
    get(
        "/agents/json",
        "/agents/json?agent=10.0.0.1",
        "Agents by address. `firstSeen`, `lastSeen` are ages and `uptime` is the agent's own, in ms; `stale`: nothing came \
         for three of its longest polling intervals (180 s until one is known). `streams`: sequences of datagrams behind the \
         address; `sharedDataSources`: those that more than one of them tells of, whose metrics have no values. \
         `sFlowCounterDuplicateSamples`: within one datagram; those of datagrams that came twice are passed over with them.",
        agents::agents,
    )
    .query(&[text("agent", "only this one, by address or host name; may be repeated")]),
    get("/metrics/json", "/metrics/json", "Metrics that have values, with the age of the newest in ms.", metrics::metrics),
    get(
        "/metric/{agents}/json",
        "/metric/10.0.0.1/json",
        "All values of an agent by data source and metric.",
        metrics::agent_metrics,
    )
    .conditions(),
    get(
        "/metric/{agents}/{metrics}/json",
        "/metric/ALL/max:ifinutilization,avg:load_one/json",
        "Each selector's value over all data sources. `max:`, `min:`, `sum:`, `avg:`, `var:`, `sdev:`, `med:`, `q1:`, `q2:`, \
         `q3:`, `iqr:`, `any:` before a name choose the aggregator, `max:` unless told; a data source before it \
         (`4.ifinoctets`) chooses that one. A flow definition's name gives its value with `topKeys`. `metricStale` counts \
         values too old to be any, `metricAbsent` others that are missing, by reason.",
        metrics::metric,
    )
    .conditions()
    .long(),
    get(
        "/table/{agents}/{metrics}/json",
        "/table/ALL/ifname,sort:ifinoctets:-2/json",
        "Rows of metrics, one a data source. `sort:NAME:-10` before a column sorts by it, the largest first where the \
         number is negative, and keeps so many.",
        metrics::table,
    )
    .conditions()
    .long(),
    get(
        "/dump/{agents}/{metrics}/json",
        "/dump/10.0.0.1/ifinoctets/json",
        "Every value that is not stale, with its age and the `interval` that a rate was taken over, in ms.",
        metrics::dump,
    )
    .conditions(),
    get("/flowkeys/json", "/flowkeys/json", "Keys that samples have had, with the time since in ms; one sample in 10 ms is looked at.", flows::keys)
        .query(&[Parameter { name: "all", kind: Kind::Flag, about: "every key, with what it is" }]),
    get("/flow/json", "/flow/json", "All flow definitions.", settings::flows),
    get("/flow/{name}/json", "/flow/tcp/json", "A flow definition.", settings::flow),
    get(
        "/flow/{name}/json",
        "/flow/tcp/json",
        "Begins a flow definition, or changes it. Keys, key functions, values and filters: docs/sflow.md.",
        settings::put_flow,
    )
    .put(r#"{"keys":"ipsource,ipdestination","value":"bytes","filter":"ipprotocol=6"}"#),
    get("/flow/{name}/json", "/flow/tcp/json", "Ends a flow definition.", settings::delete_flow).delete(),
    get(
        "/flowvalue/{agents}/{name}/json",
        "/flowvalue/ALL/tcp/json",
        "A definition's value at each data source with its largest flows; `4.tcp` is that of data source 4. `low` and \
         `high` bound the 95 % interval of an estimate, `samples` are those within the smoothing time.",
        flows::values,
    )
    .conditions()
    .long(),
    get(
        "/activeflows/{agents}/{name}/json",
        "/activeflows/ALL/tcp/json?maxFlows=2&aggMode=sum",
        "The largest flows now. `lastUpdate` is the age of the newest sample in ms; `stale`: its agent is silent, as in \
         /agents/json, and the value only sinks.",
        flows::active,
    )
    .query(&[MAX_FLOWS, MIN_VALUE, AGG_MODE])
    .long(),
    get(
        "/activeflows/{agents}/{name}/stream",
        "/activeflows/ALL/tcp/stream?interval=0.5",
        "The same as server-sent events, one each interval.",
        never,
    )
    .query(&[
        whole("maxFlows", 1, 1000, Some(100), "how many, the largest first"),
        MIN_VALUE,
        AGG_MODE,
        real("interval", 0.1, 60.0, 1.0, "seconds between two"),
    ])
    .media(SSE)
    .later(streams::flow_stream),
    get(
        "/flowlocations/{agents}/{name}/json",
        "/flowlocations/ALL/tcp/json",
        "Where the largest flows are seen, by key.",
        flows::locations,
    )
    .query(&[text("key", "only this flow")])
    .long(),
    get(
        "/flows/json",
        "/flows/json?name=web&flowID=1&timeout=60",
        "Completed flows of definitions with `log`, newest first.",
        never,
    )
    .query(&[
        text("name", "only of this definition"),
        whole("flowID", -1, ANY, Some(-1), "only after this one"),
        MAX_FLOWS,
        TIMEOUT,
    ])
    .later(streams::completed),
    get(
        "/events/json",
        "/events/json?eventID=6&timeout=60",
        "Threshold crossings, newest first. `drop` says of whose packets one was dropped \
         last (`who`: its addresses, as far as it was sampled), why and where; `flowKey` is the flow.",
        never,
    )
    .query(&[
        THRESHOLD_ID,
        whole("eventID", -1, ANY, Some(-1), "only after this one"),
        whole("maxEvents", 1, 10_000, Some(100), "how many, the newest first"),
        TIMEOUT,
    ])
    .later(streams::events),
    get(
        "/events/stream",
        "/events/stream?eventID=6",
        "Threshold crossings as server-sent events, from now on; `Last-Event-ID` or `eventID` go on after one.",
        never,
    )
    .query(&[THRESHOLD_ID, whole("eventID", -1, ANY, None, "begin after this one")])
    .media(SSE)
    .later(streams::event_stream),
    get("/threshold/json", "/threshold/json", "All thresholds.", settings::thresholds),
    get("/threshold/{name}/json", "/threshold/busy/json", "A threshold.", settings::threshold),
    get(
        "/threshold/{name}/json",
        "/threshold/busy/json",
        "Adds a threshold, or changes it: an event when the value of a metric or flow definition is greater, and again only \
         after `timeout` seconds (1 to 86400, 10 unless told) at or below. `byFlow`: each flow by itself. `filter`: \
         metrics that the data source or its agent must have, each with its possible values.",
        settings::put_threshold,
    )
    .put(r#"{"metric":"ifinutilization","value":80,"filter":{"ifspeed":["10000000000"]},"timeout":10}"#),
    get("/threshold/{name}/json", "/threshold/busy/json", "Takes a threshold away.", settings::delete_threshold).delete(),
    get("/group/json", "/group/json", "All address groups.", settings::all_groups),
    get("/group/{name}/json", "/group/sites/json", "The groups of a name.", settings::groups),
    get(
        "/group/{name}/json",
        "/group/sites/json",
        "Sets the groups of a name, for keys like `group:ipsource:sites`; the longest prefix counts.",
        settings::put_groups,
    )
    .put(r#"{"office":["10.1.0.0/16","2001:db8:1::/48"],"world":["0.0.0.0/0","::/0"]}"#),
    get("/group/{name}/json", "/group/sites/json", "Takes the groups of a name away.", settings::delete_groups).delete(),
    get("/topology/json", "/topology/json", "Nodes and links.", settings::topology),
    get("/topology/json", "/topology/json", "Sets nodes and links, for `aggMode=edge` and `TOPOLOGY`.", settings::put_topology)
        .put(
            r#"{"nodes":{"leaf1":{"agent":"10.0.0.1","ports":{"swp1":{"ifindex":1}}},"spine1":{"agent":"10.0.0.2","ports":{"swp9":{}}}},"links":{"L1":{"node1":"leaf1","port1":"swp1","node2":"spine1","port2":"swp9"}}}"#,
        ),
    get(
        "/prometheus/metrics/{agents}/{metrics}/txt",
        "/prometheus/metrics/ALL/ifinoctets,load_one/txt",
        "Metrics for Prometheus, each with the prefix `sflow_`; a stale series is absent.",
        prometheus::metrics,
    )
    .conditions()
    .media(PLAIN),
    get(
        "/prometheus/flows/{agents}/txt",
        "/prometheus/flows/ALL/txt?metric=pair_bps&key=ipsource,ipdestination&label=src,dst&value=bytes&scale=8",
        "Flows for Prometheus. The definition begins with the first scrape and ends 300 s after the last.",
        prometheus::flows,
    )
    .query(&[
        text("metric", "the metric's name"),
        text("key", "flow keys, in one parameter or several"),
        text("label", "labels instead of the keys' names, in their order"),
        text("value", "what is counted"),
        text("filter", "which samples"),
        whole("n", 1, 10_000, Some(10), "taken, but of no effect: all flows are kept, and `maxFlows` says how many are told"),
        real("t", 0.2, 600.0, 15.0, "`t` of the definition: the time constant of the smoothing, in seconds"),
        Parameter { name: "dropped", kind: Kind::Flag, about: "discarded packets instead of sampled ones" },
        AGG_MODE,
        whole("maxFlows", 1, 10_000, Some(20), "how many, the largest first"),
        real("minValue", 0.0, f64::MAX, 0.1, "the least value of a flow that is told"),
        real("scale", f64::MIN, f64::MAX, 1.0, "what values are multiplied by"),
    ])
    .changes()
    .long()
    .media(PLAIN),
];

/// What the page asks: it is of the same build, so this may change with each.
pub(super) static OF_THE_PAGE: &[Route] = &[
    get("/page/{file}", "/page/page.js", "A file of the page.", page::file),
    get("/live/stream", "/live/stream?ask=summary", "What the page shows.", never)
        .query(&[text("ask", "a question; may be repeated")])
        .media(SSE)
        // Questions begin flow definitions.
        .changes()
        .later(live::follow),
    get("/live/search", "/live/search?text=leaf", "Who or what is called so.", live::search)
        .query(&[text("text", "what to look for")])
        .long(),
];

/// What stands in the braces of paths.
pub(in crate::api) const PARTS: &[(&str, &str)] = &[
    (
        "agents",
        "agents by address or host name, between commas or semicolons; `ALL`, or `TOPOLOGY`: those of its nodes",
    ),
    ("metrics", "metrics, between commas or semicolons; `ALL` where every one makes sense"),
    ("name", "a name of 1 to 128 bytes"),
];
