//! The table of metrics as the page docs/sflow-metrics.md.

use std::fmt::Write as _;

use super::metric::{How, Metric, Unit};

/// The page, in Markdown.
pub fn page() -> String {
    let mut page = String::from(PREFACE);
    let mut structure = None;
    for metric in Metric::all() {
        if structure != Some(metric.structure.name) {
            structure = Some(metric.structure.name);
            let number = u32::from(metric.structure.format);
            // Writing to memory does not fail.
            let _ = writeln!(page, "\n## {} ({}:{})\n", metric.structure.name, number >> 12, number & 0xfff);
            page.push_str("| metric | unit | is |\n|---|---|---|\n");
        }
        let _ = writeln!(page, "| `{}` | {} | {} |", metric.name, unit(metric.unit), meaning(metric));
    }
    page
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::BytesPerSecond => "bytes/s",
        Unit::PerSecond => "1/s",
        Unit::BitsPerSecond => "bit/s",
        Unit::Percent => "%",
        Unit::Bytes => "bytes",
        Unit::Plain => "",
        Unit::Text => "text",
    }
}

/// How a metric comes from the fields of its structure.
fn meaning(metric: &Metric) -> String {
    let field = |index: usize| format!("`{}`", metric.structure.fields[index].name);
    let several = |all: &[usize]| all.iter().map(|&index| field(index)).collect::<Vec<_>>().join(" + ");
    match &metric.how {
        How::Rate(index) => format!("growth of {}", field(*index)),
        How::Sum(all) => format!("growth of {}", several(all)),
        How::Value(index, factor) if *factor == 1.0 => field(*index),
        How::Value(index, factor) => format!("{} x {factor}", field(*index)),
        How::Text(index) => field(*index),
        How::Speed => "`ifSpeed`; none of an interface that has been faster".to_owned(),
        How::Utilization(octets) => {
            format!("800 x growth of {} / `ifSpeed`; none of an interface that has been faster", field(*octets))
        }
        How::Share(index, all) => format!("growth of {} / growth of all {} kinds of time", field(*index), all.len()),
        How::Rest(index, all) => {
            format!("100 - growth of {} / growth of all {} kinds of time", field(*index), all.len())
        }
        How::Busy(time, processors) => format!("growth of {} / (time x {})", field(*time), field(*processors)),
        How::Used(free, total) => format!("100 x (1 - {} / {})", field(*free), field(*total)),
        How::Bit(index, bit) => format!("bit {bit} of {}: `up` or `down`", field(*index)),
        How::Name(index, names) => format!("{} by name: `{}`", field(*index), names.join("`, `")),
    }
}

const PREFACE: &str = "\
# Metrics of sFlow

All metrics that `weir sflow serve` makes of counters: what `/metric`, `/dump`, `/table`, thresholds and Prometheus (with the prefix
`sflow_`) know. Which of them an agent has, `/metrics/json` tells. Growth is by the second, by the agent's own clock where that can be
believed; where there is no true rate (the first counters, a restart, a total that went back) there is none.

This page is made from the code: `WEIR_WRITE_DOCS=1 cargo test -p weir --test weir sflow_pages` writes it anew.
";
