//! Every path: what it is for, what it may be asked, and who answers.

use weir_service::http::{ANY, Kind, Parameter};

use super::{Route, index};
use crate::api::{agents, flows, live, metrics, page, settings, streams};
use crate::prometheus;

const MAX_FLOWS: Parameter = Parameter::whole("maxFlows", 1, 10_000, Some(100), "how many, the largest first");
const MIN_VALUE: Parameter = Parameter::real("minValue", 0.0, f64::MAX, 0.0, "the least value of a flow that is told");
const AGG_MODE: Parameter = Parameter::new(
    "aggMode",
    Kind::Choice { of: &["max", "sum", "agent"], default: Some("max") },
    "how reports of one flow by several data sources are joined: `max` takes the largest (it passes several hops), `sum` \
            adds them, `agent` adds those of each agent and takes the largest",
);
const TIMEOUT: Parameter =
    Parameter::real("timeout", 0.0, 600.0, 0.0, "seconds to wait where there is nothing yet (long poll)");
const THRESHOLD_ID: Parameter = Parameter::text("thresholdID", "only events of this threshold");

/// What a scrape of flows says.
const SCRAPED: &[Parameter] = &[
    Parameter::text("metric", "the metric's name"),
    Parameter::text("key", "flow keys, in one parameter or several"),
    Parameter::text("label", "labels instead of the keys' names, in their order"),
    Parameter::text("value", "what is counted"),
    Parameter::text("filter", "which samples"),
    Parameter::whole(
        "n",
        1,
        10_000,
        Some(10),
        "taken, but of no effect: all flows are kept, and `maxFlows` says how many are told",
    ),
    Parameter::real("t", 0.2, 600.0, 15.0, "`t` of the definition: the time constant of the smoothing, in seconds"),
    Parameter::new("dropped", Kind::Flag, "discarded packets instead of sampled ones"),
    AGG_MODE,
    Parameter::whole("maxFlows", 1, 10_000, Some(20), "how many, the largest first"),
    Parameter::real("minValue", 0.0, f64::MAX, 0.1, "the least value of a flow that is told"),
    Parameter::real("scale", f64::MIN, f64::MAX, 1.0, "what values are multiplied by"),
];

const PLAIN: &str = "text/plain; charset=utf-8";
const SSE: &str = "text/event-stream";

pub(crate) static ROUTES: &[Route] = &[
    Route::get("/", "This index; a browser is shown the page.", index).media(PLAIN),
    Route::get("/version", "The software and its version.", agents::version).media(PLAIN),
    Route::get("/ready", "200 as soon as it receives and analyses.", agents::ready),
    Route::get("/analyzer/json", "The analyser's own figures: samples by kind, datagrams that never came, why there was no rate and how often \
         (`rates_absent_REASON`), and of each table how full it is, how full it may be, and what it refused or evicted; `connections_ended_full`: connections \
         that gave way to newer ones. Further \
         tables are `sources`, `flows`, `offenders`, `crossings`.", agents::analyzer),
    Route::get("/agents/json", "Agents by address. `firstSeen`, `lastSeen` are ages and `uptime` is the agent's own, in ms; `stale`: nothing came \
         for three of its longest polling intervals (180 s until one is known). `streams`: sequences of datagrams behind the \
         address; `sharedDataSources`: those that several of them report as one sub-agent, whose metrics have no values. \
         `sFlowCounterDuplicateSamples`: within one datagram; those of datagrams that came twice are passed over with them.", agents::agents).example("/agents/json?agent=10.0.0.1")
    .query(&[Parameter::text("agent", "only this one, by address or host name; may be repeated")]),
    Route::get("/metrics/json", "Metrics that have values, with the age of the newest in ms.", metrics::metrics),
    Route::get("/metric/{agents}/json", "All values of an agent by data source and metric.", metrics::agent_metrics).example("/metric/10.0.0.1/json")
    .further(),
    Route::long("/metric/{agents}/{metrics}/json", "Each selector's value over all data sources. `max:`, `min:`, `sum:`, `avg:`, `var:`, `sdev:`, `med:`, `q1:`, `q2:`, \
         `q3:`, `iqr:`, `any:` before a name choose the aggregator, `max:` unless told; a data source before it \
         (`4.ifinoctets`) chooses that one. A flow definition's name gives its value with `topKeys`. `metricStale` counts \
         values too old to be any, `metricAbsent` others that are missing, by reason.", metrics::metric).example("/metric/ALL/max:ifinutilization,avg:load_one/json")
    .further(),
    Route::long("/table/{agents}/{metrics}/json", "Rows of metrics, one a data source. `sort:NAME:-10` before a column sorts by it, the largest first where the \
         number is negative, and keeps so many.", metrics::table).example("/table/ALL/ifname,sort:ifinoctets:-2/json")
    .further(),
    Route::get("/dump/{agents}/{metrics}/json", "Every value that is not stale, with its age and the `interval` that a rate was taken over, in ms.", metrics::dump).example("/dump/10.0.0.1/ifinoctets/json")
    .further(),
    Route::get("/flowkeys/json", "Keys that samples have had, with the time since in ms; one sample in 10 ms is looked at.", flows::keys)
        .query(&[Parameter::new("all", Kind::Flag, "every key, with what it is")]),
    Route::get("/flow/json", "All flow definitions.", settings::flows),
    Route::get("/flow/{name}/json", "A flow definition.", settings::flow).example("/flow/tcp/json"),
    Route::get("/flow/{name}/json", "Begins a flow definition, or changes it. Keys, key functions, values and filters: docs/sflow.md.", settings::put_flow).example("/flow/tcp/json")
    .put(r#"{"keys":"ipsource,ipdestination","value":"bytes","filter":"ipprotocol=6"}"#),
    Route::get("/flow/{name}/json", "Ends a flow definition.", settings::delete_flow).example("/flow/tcp/json").delete(),
    Route::long("/flowvalue/{agents}/{name}/json", "A definition's value at each data source with its largest flows; `4.tcp` is that of data source 4. `low` and \
         `high` bound the 95 % interval of an estimate, `samples` are those within the smoothing time.", flows::values).example("/flowvalue/ALL/tcp/json")
    .further(),
    Route::long("/activeflows/{agents}/{name}/json", "The largest flows now. `lastUpdate` is the age of the newest sample in ms; `stale`: its agent is silent, as in \
         /agents/json, and the value only sinks.", flows::active).example("/activeflows/ALL/tcp/json?maxFlows=2&aggMode=sum")
    .query(&[MAX_FLOWS, MIN_VALUE, AGG_MODE]),
    Route::later("/activeflows/{agents}/{name}/stream", "The same as server-sent events, one each interval.", streams::flow_stream).example("/activeflows/ALL/tcp/stream?interval=0.5")
    .query(&[
        Parameter::whole("maxFlows", 1, 1000, Some(100), "how many, the largest first"),
        MIN_VALUE,
        AGG_MODE,
        Parameter::real("interval", 0.1, 60.0, 1.0, "seconds between two"),
    ])
    .media(SSE),
    Route::long("/flowlocations/{agents}/{name}/json", "Where the largest flows are seen, by key.", flows::locations).example("/flowlocations/ALL/tcp/json")
    .query(&[Parameter::text("key", "only this flow")]),
    Route::later("/flows/json", "Completed flows of definitions with `log`, newest first.", streams::completed).example("/flows/json?name=web&flowID=1&timeout=60")
    .query(&[
        Parameter::text("name", "only of this definition"),
        Parameter::whole("flowID", -1, ANY, Some(-1), "only after this one"),
        MAX_FLOWS,
        TIMEOUT,
    ]),
    Route::later("/events/json", "Threshold crossings, newest first. `drop` says of whose packets one was dropped \
         last (`who`: its addresses, as far as it was sampled), why and where; `flowKey` is the flow.", streams::events).example("/events/json?eventID=6&timeout=60")
    .query(&[
        THRESHOLD_ID,
        Parameter::whole("eventID", -1, ANY, Some(-1), "only after this one"),
        Parameter::whole("maxEvents", 1, 10_000, Some(100), "how many, the newest first"),
        TIMEOUT,
    ]),
    Route::later("/events/stream", "Threshold crossings as server-sent events, from now on; `Last-Event-ID` or `eventID` go on after one.", streams::event_stream).example("/events/stream?eventID=6")
    .query(&[THRESHOLD_ID, Parameter::whole("eventID", -1, ANY, None, "begin after this one")])
    .media(SSE),
    Route::get("/threshold/json", "All thresholds.", settings::thresholds),
    Route::get("/threshold/{name}/json", "A threshold.", settings::threshold).example("/threshold/busy/json"),
    Route::get("/threshold/{name}/json", "Adds a threshold, or changes it: an event when the value of a metric or flow definition is greater, and again only \
         after `timeout` seconds (1 to 86400, 10 unless told) at or below. `byFlow`: each flow by itself. `filter`: \
         metrics that the data source or its agent must have, each with its possible values.", settings::put_threshold).example("/threshold/busy/json")
    .put(r#"{"metric":"ifinutilization","value":80,"filter":{"ifspeed":["10000000000"]},"timeout":10}"#),
    Route::get("/threshold/{name}/json", "Takes a threshold away.", settings::delete_threshold).example("/threshold/busy/json").delete(),
    Route::get("/group/json", "All address groups.", settings::all_groups),
    Route::get("/group/{name}/json", "The groups of a name.", settings::groups).example("/group/sites/json"),
    Route::get("/group/{name}/json", "Sets the groups of a name, for keys like `group:ipsource:sites`; the longest prefix counts.", settings::put_groups).example("/group/sites/json")
    .put(r#"{"office":["10.1.0.0/16","2001:db8:1::/48"],"world":["0.0.0.0/0","::/0"]}"#),
    Route::get("/group/{name}/json", "Takes the groups of a name away.", settings::delete_groups).example("/group/sites/json").delete(),
    Route::get("/prometheus/metrics/{agents}/{metrics}/txt", "Metrics for Prometheus, each with the prefix `sflow_`; a stale series is absent.", prometheus::metrics).example("/prometheus/metrics/ALL/ifinoctets,load_one/txt")
    .further()
    .media(PLAIN),
    Route::long("/prometheus/flows/{agents}/txt", "Flows for Prometheus. The definition begins with the first scrape and ends 300 s after the last.", prometheus::flows).example("/prometheus/flows/ALL/txt?metric=pair_bps&key=ipsource,ipdestination&label=src,dst&value=bytes&scale=8")
    .query(SCRAPED)
    .changes()
    .media(PLAIN),
    Route::get("/app/prometheus/scripts/export.js/dump/{agents}/{metrics}/txt", "`/prometheus/metrics`, where sFlow-RT's application has it.", prometheus::metrics).example("/app/prometheus/scripts/export.js/dump/ALL/load_one/txt")
    .further()
    .media(PLAIN),
    Route::long("/app/prometheus/scripts/export.js/flows/{agents}/txt", "`/prometheus/flows`, where sFlow-RT's application has it.", prometheus::flows).example("/app/prometheus/scripts/export.js/flows/ALL/txt?metric=pair_bps&key=ipsource,ipdestination&value=bytes")
    .query(SCRAPED)
    .changes()
    .media(PLAIN),
];

/// What the page asks: it is of the same build, so this may change with each.
pub(super) static OF_THE_PAGE: &[Route] = &[
    Route::get("/page/{file}", "A file of the page.", page::file).example("/page/page.js"),
    Route::later("/live/stream", "What the page shows.", live::follow)
        .example("/live/stream?ask=summary")
        .query(&[Parameter::text("ask", "a question; may be repeated")])
        .media(SSE)
        // Questions begin flow definitions.
        .changes(),
    Route::long("/live/search", "Who or what is called so.", live::search)
        .example("/live/search?text=leaf")
        .query(&[Parameter::text("text", "what to look for")]),
];

/// What stands in the braces of paths.
pub(in crate::api) const PARTS: &[(&str, &str)] = &[
    ("agents", "agents by address or host name, between commas or semicolons, or `ALL`"),
    ("metrics", "metrics, between commas or semicolons; `ALL` where every one makes sense"),
    ("name", "a name of 1 to 128 bytes"),
];
