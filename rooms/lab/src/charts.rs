//! Default charts of a scenario without any: those that fit its axes.

use weir_report::record::{Chart, ChartKind, Scale};
use weir_traffic::Transport;

use crate::scenario::Mode;
use crate::sweep::{Axis, Sweep};

/// The charts of a scenario. Without any: the cells' measurements over the first numeric axis, one line per value of
/// the next axis, or over time if there is only one cell.
pub fn of(sweep: &Sweep) -> Vec<Chart> {
    let scenario = sweep.scenario();
    if !scenario.charts.is_empty() {
        return scenario.charts.clone();
    }
    let chart = |name: &str, title: &str| Chart {
        name: name.into(),
        title: title.into(),
        caption: "Default charts: the scenario has no [[charts]]. Bands are 95 % intervals.".into(),
        ..Chart::default()
    };
    let Some(x) = x_axis(&sweep.axes) else {
        let time = Chart { kind: ChartKind::Time, ..chart("time", "Over time") };
        return if scenario.traffic.mode == Mode::Bulk { vec![time] } else { Vec::new() };
    };
    let series = series(&sweep.axes, x);
    let (column, x_label) = column(&x.key);
    let over = |(name, title, y, label, scale): Drawn<'_>| Chart {
        x: column.clone(),
        y: y.into(),
        series: series.clone(),
        scale,
        x_label: x_label.clone(),
        y_label: label.into(),
        ..chart(name, title)
    };
    let columns = scenario.own_columns();
    let own = columns.iter().map(|own| over((&own.name, &own.name, &own.name, &own.unit, Scale::Linear)));
    match (scenario.traffic.mode, scenario.traffic.transport) {
        (Mode::Programs, _) => own.collect(),
        (Mode::Bulk, Transport::Udp) => vec![over(THROUGHPUT)],
        (Mode::Bulk, _) => vec![over(THROUGHPUT), over(RETRANSMITS)],
        (Mode::Messages, _) => [ARRIVED, LOST, MEAN, LARGEST].map(over).into_iter().chain(own).collect(),
    }
}

/// File name, title, column, label and scale.
type Drawn<'a> = (&'a str, &'a str, &'a str, &'a str, Scale);

const THROUGHPUT: Drawn<'_> = ("throughput", "Throughput", "mbit_per_s", "Mbit/s", Scale::Linear);
const RETRANSMITS: Drawn<'_> = ("retransmits", "Retransmits", "retransmits", "segments", Scale::Linear);
const ARRIVED: Drawn<'_> = ("arrived", "Messages received", "msgs_per_s", "messages/s", Scale::Linear);
const MEAN: Drawn<'_> = ("delay-mean", "Mean one-way delay", "delay_mean_us", "mean delay", Scale::Log);
const LARGEST: Drawn<'_> = ("delay-max", "Max one-way delay", "delay_max_us", "max delay", Scale::Log);
const LOST: Drawn<'_> = ("lost", "Share of messages lost", "lost_share", "share lost", Scale::Linear);

/// The numeric axis with most values, the first of several.
fn x_axis(axes: &[Axis]) -> Option<&Axis> {
    let number = |text: &String| text.starts_with(|c: char| c.is_ascii_digit());
    let mut numeric = axes.iter().filter(|axis| axis.values.len() > 1 && axis.as_written().iter().all(number));
    let longest = numeric.clone().map(|axis| axis.values.len()).max();
    let longest = numeric.find(|axis| Some(axis.values.len()) == longest);
    longest.or_else(|| axes.iter().find(|axis| axis.values.len() > 1))
}

/// The column or axis of the lines: the transport, if it varies, else the first axis besides x.
fn series(axes: &[Axis], x: &Axis) -> String {
    let others = || axes.iter().filter(|axis| axis.key != x.key && axis.values.len() > 1);
    match others().find(|axis| axis.key == "traffic.transport").or_else(|| others().next()) {
        Some(axis) if axis.key != "traffic.transport" => axis.key.clone(),
        _ => "transport".into(),
    }
}

/// The numeric column of an axis, and its label.
fn column(key: &str) -> (String, String) {
    let (column, label) = match (key, key.rsplit('.').next()) {
        ("path.loss", _) => ("loss_pct", "packet loss of the path, one way, %"),
        ("path.delay", _) => ("latency_ms", "delay of the path, one way, ms"),
        ("traffic.payload", _) => ("payload_bytes", "message size, bytes"),
        (key, Some("loss")) if key.starts_with("links.") => ("loss_pct", "packet loss of the path, one way, %"),
        (key, Some("delay")) if key.starts_with("links.") => ("latency_ms", "delay of the path, one way, ms"),
        _ => (key, key),
    };
    (column.into(), label.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    fn charts(set: &[(&str, &str)]) -> Vec<Chart> {
        let (_, text) = Scenario::find("telemetry").unwrap();
        let none = [("charts", "[]"), ("claims", "[]")];
        let set: Vec<_> = none.iter().chain(set).map(|(key, value)| (key.to_string(), value.to_string())).collect();
        of(&Sweep::new("telemetry.toml", &text, &set).unwrap())
    }

    #[track_caller]
    fn drawn(charts: &[Chart], expected: &[[&str; 3]]) {
        let drawn: Vec<_> = charts.iter().map(|chart| [&*chart.x, &*chart.y, &*chart.series]).collect();
        assert_eq!(drawn, expected);
        assert!(charts.iter().all(|chart| chart.problem().is_none()));
    }

    #[test]
    fn axes_are_drawn_where_nothing_is_asked_for() {
        let messages = ["msgs_per_s", "lost_share", "delay_mean_us", "delay_max_us"];
        drawn(&charts(&[]), &messages.map(|y| ["loss_pct", y, "transport"]));
        let set = [("path.loss", "1%"), ("traffic.transport", "tcp"), ("tcp.congestion", "cubic,bbr")];
        let over_interval = charts(&[&set[..], &[("traffic.interval", "1ms,5ms,10ms")]].concat());
        drawn(&over_interval, &messages.map(|y| ["traffic.interval", y, "tcp.congestion"]));
        let bulk = [("traffic.transport", "tcp"), ("traffic.mode", "bulk")];
        drawn(&charts(&bulk), &["mbit_per_s", "retransmits"].map(|y| ["loss_pct", y, "transport"]));
        let one = charts(&[&bulk[..], &[("path.loss", "1%")]].concat());
        assert_eq!(one.iter().map(|chart| chart.kind).collect::<Vec<_>>(), [ChartKind::Time]);
        drawn(&charts(&set[..2]), &[]);
    }

    #[test]
    fn charts_that_are_asked_for_are_those_that_are_drawn() {
        let (_, text) = Scenario::find("telemetry").unwrap();
        let sweep = Sweep::new("telemetry.toml", &text, &[]).unwrap();
        assert_eq!(of(&sweep).len(), sweep.scenario().charts.len());
    }
}
