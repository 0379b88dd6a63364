//! Metrics and flows for Prometheus, named and labelled as sFlow-RT's prometheus application does.
//!
//! A metric's samples are written family by family while the client reads: nothing is in memory as a whole, and a stale
//! series is absent, not old.

mod exposition;
mod scraped;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use weir_service::metrics::Format;

use crate::api::{ActiveFlows, Answer, Api, Call, Problem};
use crate::api::{agents_of, conditions, each, mode, names_of, pages};
use crate::events::Short;
use crate::flows::AggMode;
use crate::thresholds::Fact;
use exposition::{name_of, sample, untyped};
pub(crate) use scraped::Scraped;
pub use scraped::{DEFINITIONS, IDLE};

/// What stands before a metric's name.
const PREFIX: &str = "sflow_";

/// `sflow_ifinoctets{agent="192.168.0.11",datasource="15",host="leaf1",ifname="swp10"} 0`
pub(crate) fn metrics(api: &Arc<Api>, call: &Call) -> Answer {
    let mut told = HashSet::new();
    let mut families = Vec::new();
    for metric in names_of(api, call)? {
        let family = name_of(PREFIX, &metric);
        // Two that are written alike would be one with every sample twice.
        if told.insert(family.clone()) {
            families.push((family, metric));
        }
    }
    let agents = agents_of(&*api.analysis, call)?.addresses(&*api.analysis);
    let (format, conditions) = (accepted(call), conditions(call)?);
    let (api, turns) = (api.clone(), api.turns());
    let (mut family, mut agent, mut begun) = (0, 0, false);
    let body = pages(turns, move |page| {
        let Some((name, metric)) = families.get(family) else {
            page.extend_from_slice(end(format));
            return false;
        };
        let Some(&address) = agents.get(agent) else {
            (family, agent, begun) = (family + 1, 0, false);
            return true;
        };
        agent += 1;
        each(&api, address, metric, None, &conditions, &mut |measure, value| {
            let Fact::Number(value) = *value else { return };
            // A family of texts, or one that is stale, has no head either.
            if !begun {
                begun = true;
                untyped(page, name, format, format_args!("sFlow metric {metric} of the data source."));
            }
            let labels: [(&str, &dyn std::fmt::Display); 4] = [
                ("agent", &address),
                ("datasource", &Short(measure.source)),
                ("host", &measure.host.unwrap_or_default()),
                ("ifname", &measure.ifname.unwrap_or_default()),
            ];
            sample(page, name, labels, value);
        });
        true
    });
    Ok(exposition(format, body))
}

/// `pair{src="10.0.0.1",dst="10.0.0.2"} 10.1`: what scrapes ask for begins with the first of them.
pub(crate) fn flows(api: &Arc<Api>, call: &Call) -> Answer {
    let agents = agents_of(&*api.analysis, call)?;
    let needed = |name| {
        let list = call.texts(name).collect::<Vec<_>>().join(",");
        if list.is_empty() { Err(Problem::request(format!("{name}: this path needs it"))) } else { Ok(list) }
    };
    let (metric, keys, value) = (name_of("", &needed("metric")?), needed("key")?, needed("value")?);
    let labels = labels(&keys, &call.texts("label").collect::<Vec<_>>().join(","))?;
    let dropped = call.text("dropped") == Some("true");
    let mut definition = json!({
        "keys": keys, "value": value, "t": call.real("t"), "fs": SEPARATOR, "dropped": dropped,
    });
    if let Some(filter) = call.text("filter").filter(|filter| !filter.is_empty()) {
        definition["filter"] = filter.into();
    }
    let name = api.scraped.name(&api.shards, &definition, std::time::Instant::now())?;
    let mode = mode(call).unwrap_or(if dropped { AggMode::Sum } else { AggMode::Max });
    let query = ActiveFlows { most: call.count("maxFlows"), least: call.real("minValue"), mode: Some(mode) };
    let scale = call.real("scale");
    let format = accepted(call);
    let mut page = Vec::new();
    untyped(&mut page, &metric, format, format_args!("Flows by {keys}, {value}."));
    // One whose definition ended meanwhile has none.
    let flows = api.analysis.active_flows(&name, &agents, &query).unwrap_or_default();
    for flow in flows.iter().filter(|flow| !flow.stale) {
        let values = flow.key.split(SEPARATOR);
        let labels = labels.iter().zip(values).map(|(label, value)| (label.as_str(), value));
        sample(&mut page, &metric, labels, flow.value * scale);
    }
    page.extend_from_slice(end(format));
    Ok(exposition(format, page.into()))
}

/// Keys as labels, unless others are given in their order. Functions have commas in their arguments, too; those of
/// sFlow-RT are between colons.
fn labels(keys: &str, given: &str) -> Result<Vec<String>, Problem> {
    let mut given = given.split(',').map(str::trim);
    let mut labels: Vec<String> = Vec::new();
    for key in keys.split(',') {
        let label = given.next().filter(|label| !label.is_empty()).unwrap_or(key.trim());
        let label = exposition::label_of(label);
        if labels.contains(&label) {
            return Err(Problem::request(format!("label: two keys have the label {label:?}: give each its own")));
        }
        labels.push(label);
    }
    if given.next().is_some_and(|label| !label.is_empty()) {
        return Err(Problem::request("label: there are more labels than keys"));
    }
    Ok(labels)
}

fn accepted(call: &Call) -> Format {
    Format::accepted(call.header(header::ACCEPT))
}

fn end(format: Format) -> &'static [u8] {
    match format {
        Format::OpenMetrics => b"# EOF\n",
        Format::Text => b"",
    }
}

fn exposition(format: Format, body: axum::body::Body) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static(format.content_type()))], body).into_response()
}

/// Between keys, as no name has it.
const SEPARATOR: char = '\u{1f}';
