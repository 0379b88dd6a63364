//! Metrics: families declared once, as constants or by `ledger!`, from which both the exposition and `docs/metrics.md` are made.
//!
//! Names follow one grammar, `weir_<room>_<noun>_<unit>_total`; labels have few values. A room keeps its counts where it
//! likes and reads them out when somebody scrapes, so nothing here is on the way of a datagram.

use std::collections::BTreeSet;
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, LabelSetEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};
use weir_program::ledger::Ledger;

pub use weir_program::ledger::{Family, Kind, Value};

/// Where a room puts its samples while it is scraped.
#[derive(Debug)]
pub struct Samples<'a> {
    encoder: DescriptorEncoder<'a>,
    wanted: Arc<Wanted>,
    outcome: fmt::Result,
}

/// Which samples a scrape asks for: all, or those whose labels have one of the values that it names.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    query: Vec<(String, String)>,
    /// Labels of the families that were exposed.
    known: Arc<Mutex<BTreeSet<&'static str>>>,
}

impl Wanted {
    /// What the query of a request says: `destination=siem&destination=b` for either, `destination=*` for any; another
    /// label must have its value, too. Families without such a label are left out.
    pub fn parse(query: &str) -> Self {
        Self { query: form_urlencoded::parse(query.as_bytes()).into_owned().collect(), known: Arc::default() }
    }

    /// A label that no family has which was exposed, and those that they have.
    pub(crate) fn unknown(&self) -> Option<(&str, BTreeSet<&'static str>)> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let unknown = self.query.iter().find(|(label, _)| !known.contains(&**label));
        unknown.map(|(label, _)| (&**label, known.clone()))
    }

    /// Whether values of this label are asked for.
    fn names(&self, label: &str) -> bool {
        self.query.iter().any(|(name, _)| name == label)
    }

    fn takes_family(&self, family: &Family) -> bool {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).extend(family.labels);
        self.query.iter().all(|(name, _)| family.labels.contains(&&**name))
    }

    fn takes(&self, labels: &Labels<'_>) -> bool {
        labels.names.iter().zip(labels.values).all(|(label, value)| {
            let mut of_label = self.query.iter().filter(|(name, _)| name == label).peekable();
            of_label.peek().is_none() || of_label.any(|(_, wanted)| wanted == value || wanted == "*")
        })
    }
}

impl Samples<'_> {
    /// Whether the scrape asks for values of this label: a room that leaves out what is too much then leaves out nothing.
    pub fn are_asked_by(&self, label: &str) -> bool {
        self.wanted.names(label)
    }

    /// All samples of a family: label values, in the order of [`Family::labels`], and a value. Each family is to be given
    /// once a scrape, also if it has no sample.
    ///
    /// # Panics
    /// In builds with debug assertions, if a sample has not as many label values as the family has labels.
    pub fn family<L, V>(&mut self, family: &'static Family, samples: impl IntoIterator<Item = (L, V)>)
    where
        L: AsRef<[String]>,
        V: Into<Value>,
    {
        let outcome = self.encode(family, samples);
        self.outcome = self.outcome.and(outcome);
    }

    /// All that a ledger counts.
    pub fn ledger<L: Ledger>(&mut self, ledger: &L) {
        L::give(&[(Vec::new(), ledger)], &mut |family, rows| self.family(family, rows));
    }

    /// The one sample of a family without labels.
    pub fn single(&mut self, family: &'static Family, value: impl Into<Value>) {
        self.family(family, [([], value)]);
    }

    fn encode<L, V>(&mut self, family: &'static Family, samples: impl IntoIterator<Item = (L, V)>) -> fmt::Result
    where
        L: AsRef<[String]>,
        V: Into<Value>,
    {
        if !self.wanted.takes_family(family) {
            return Ok(());
        }
        let unit = family.unit.map(|unit| Unit::Other(unit.to_owned()));
        let kind = match family.kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Info => MetricType::Info,
        };
        let mut metric = self.encoder.encode_descriptor(family.name, family.help, unit.as_ref(), kind)?;
        for (values, value) in samples {
            let labels = Labels { names: family.labels, values: values.as_ref() };
            debug_assert_eq!(labels.names.len(), labels.values.len(), "labels of {}", family.name);
            if !self.wanted.takes(&labels) {
                continue;
            }
            if family.kind == Kind::Info {
                metric.encode_info(&labels)?;
            } else if labels.names.is_empty() {
                encode_value(&mut metric, family.kind, value.into())?;
            } else {
                encode_value(&mut metric.encode_family(&labels)?, family.kind, value.into())?;
            }
        }
        Ok(())
    }
}

fn encode_value(metric: &mut MetricEncoder<'_>, kind: Kind, value: Value) -> fmt::Result {
    const NO_EXEMPLAR: Option<&Exemplar<[(String, String); 0], f64>> = None;
    match (kind, value) {
        (Kind::Counter, Value::Whole(count)) => metric.encode_counter(&count, NO_EXEMPLAR),
        (Kind::Counter, Value::Real(sum)) => metric.encode_counter(&sum, NO_EXEMPLAR),
        (_, Value::Whole(count)) => metric.encode_gauge(&count),
        (_, Value::Real(measure)) => metric.encode_gauge(&measure),
    }
}

struct Labels<'a> {
    names: &'static [&'static str],
    values: &'a [String],
}

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        for (name, value) in self.names.iter().zip(self.values) {
            let mut label = encoder.encode_label();
            let mut key = label.encode_label_key()?;
            key.write_str(name)?;
            let mut text = key.encode_label_value()?;
            text.write_str(value)?;
            text.finish()?;
        }
        Ok(())
    }
}

/// How samples are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The older text format of Prometheus, 0.0.4.
    Text,
}

impl Format {
    /// The format that an `Accept` header asks for: OpenMetrics where it is named and not refused (`q=0`), else text.
    pub fn accepted(header: Option<&str>) -> Self {
        let wants_open_metrics = header.unwrap_or_default().split(',').any(|range| {
            let mut parts = range.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default();
            let refused = parts.any(|part| {
                part.strip_prefix("q=").and_then(|weight| weight.trim().parse::<f64>().ok()).is_some_and(|q| q <= 0.0)
            });
            media_type.eq_ignore_ascii_case("application/openmetrics-text") && !refused
        });
        if wants_open_metrics { Self::OpenMetrics } else { Self::Text }
    }

    /// The `Content-Type` of what [`expose`] writes.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// The exposition of what `source` gives.
pub fn expose(format: Format, source: impl Fn(&mut Samples<'_>) + Send + Sync + 'static) -> String {
    expose_wanted(format, Wanted::default(), source)
}

/// The exposition of what is wanted of what `source` gives.
pub fn expose_wanted(
    format: Format,
    wanted: Wanted,
    source: impl Fn(&mut Samples<'_>) + Send + Sync + 'static,
) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Source { wanted: wanted.into(), source }));
    let mut written = String::new();
    // Writing to a string does not fail.
    let _ = text::encode(&mut written, &registry);
    match format {
        Format::OpenMetrics => written,
        Format::Text => as_text(&written),
    }
}

struct Source<F> {
    wanted: Arc<Wanted>,
    source: F,
}

impl<F> fmt::Debug for Source<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Source")
    }
}

impl<F: Fn(&mut Samples<'_>) + Send + Sync + 'static> Collector for Source<F> {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut samples = Samples { encoder, wanted: self.wanted.clone(), outcome: Ok(()) };
        (self.source)(&mut samples);
        samples.outcome
    }
}

/// The older format names a family as its samples are named, suffix included, and knows neither units nor an end.
fn as_text(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help = None;
    for line in open_metrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').map(|(_, help)| help);
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                kind => ("", kind),
            };
            let help = help.take().unwrap_or_default();
            // Writing to a string does not fail.
            let _ = writeln!(text, "# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}");
        } else if !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// The page that lists every family by room, for `docs/metrics.md`. `rooms`: heading and families.
pub fn page(rooms: &[(&str, &[Family])]) -> String {
    let mut page = String::from(PREFACE);
    for (heading, families) in rooms {
        let _ = writeln!(page, "\n## {heading}\n\n| metric | type | labels | meaning |\n|---|---|---|---|");
        for family in *families {
            let kind = match family.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Info => "info",
            };
            let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
            let _ = writeln!(
                page,
                "| `{}` | {kind} | {} | {} |",
                family.full_name(),
                labels.join(", "),
                family.help.trim()
            );
        }
    }
    page
}

const PREFACE: &str = "\
# Metrics

Every service answers `GET /metrics` on its `--admin` address, in the OpenMetrics 1.0 format where the `Accept` header
names it and in the text format of Prometheus else. Counters begin at 0 when the service starts and count until it ends.

This page is made from the code: `WEIR_WRITE_DOCS=1 cargo test -p weir --test weir metrics_page` writes it anew.
";

#[cfg(test)]
mod tests {
    use super::*;

    static EATEN: Family = Family {
        name: "weir_test_eaten",
        unit: Some("datagrams"),
        kind: Kind::Counter,
        help: "Datagrams that were eaten.",
        labels: &["who", "how"],
    };
    static LEVEL: Family =
        Family { name: "weir_test_level", unit: None, kind: Kind::Gauge, help: "How full it is.", labels: &[] };
    static BUILD: Family =
        Family { name: "weir_test", unit: None, kind: Kind::Info, help: "What it is.", labels: &["version"] };

    fn source(samples: &mut Samples<'_>) {
        let row = |who: &str, how: &str| [who.to_owned(), how.to_owned()];
        samples.family(&EATEN, [(row("cat", "raw"), 7_u64), (row("\"d\\og\"\n", "{}"), u64::MAX)]);
        samples.single(&LEVEL, 0.25);
        samples.family(&BUILD, [(["1.0".to_owned()], 1_u64)]);
    }

    #[test]
    fn open_metrics_as_its_specification_writes_it() {
        let expected = r##"# HELP weir_test_eaten_datagrams Datagrams that were eaten.
# TYPE weir_test_eaten_datagrams counter
# UNIT weir_test_eaten_datagrams datagrams
weir_test_eaten_datagrams_total{who="cat",how="raw"} 7
weir_test_eaten_datagrams_total{who="\"d\\og\"\n",how="{}"} 18446744073709551615
# HELP weir_test_level How full it is.
# TYPE weir_test_level gauge
weir_test_level 0.25
# HELP weir_test What it is.
# TYPE weir_test info
weir_test_info{version="1.0"} 1
# EOF
"##;
        assert_eq!(expose(Format::OpenMetrics, source), expected);
    }

    #[test]
    fn the_older_format_names_families_as_their_samples() {
        let expected = r##"# HELP weir_test_eaten_datagrams_total Datagrams that were eaten.
# TYPE weir_test_eaten_datagrams_total counter
weir_test_eaten_datagrams_total{who="cat",how="raw"} 7
weir_test_eaten_datagrams_total{who="\"d\\og\"\n",how="{}"} 18446744073709551615
# HELP weir_test_level How full it is.
# TYPE weir_test_level gauge
weir_test_level 0.25
# HELP weir_test_info What it is.
# TYPE weir_test_info gauge
weir_test_info{version="1.0"} 1
"##;
        assert_eq!(expose(Format::Text, source), expected);
        let names: Vec<String> = [&EATEN, &LEVEL, &BUILD].map(Family::full_name).to_vec();
        assert_eq!(names, ["weir_test_eaten_datagrams_total", "weir_test_level", "weir_test_info"]);
    }

    #[test]
    fn a_query_asks_for_some() {
        let of = |query: &str| {
            let text = expose_wanted(Format::Text, Wanted::parse(query), source);
            text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
        };
        let [cat, dog, level, build] = &of("")[..] else { panic!("four samples") };
        assert!(dog.contains("og") && level.contains("level") && build.contains("version"));
        assert_eq!(of("who=cat"), [cat.as_str()]);
        assert_eq!(of("who=cat&who=%22d%5Cog%22%0A"), [cat.as_str(), dog]);
        assert_eq!(of("who=*&how=raw"), [cat.as_str()]);
        assert_eq!(of("who=*"), [cat.as_str(), dog]);
        assert_eq!(of("who=cat&version=1.0"), [""; 0]);
    }

    #[test]
    fn the_accept_header_chooses_the_format() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                          text/plain;version=0.0.4;q=0.4,*/*;q=0.1";
        let cases = [
            (None, Format::Text),
            (Some("*/*"), Format::Text),
            (Some("text/html, text/plain"), Format::Text),
            (Some(prometheus), Format::OpenMetrics),
            (Some("application/OpenMetrics-Text"), Format::OpenMetrics),
            (Some("application/openmetrics-text; q=0, text/plain"), Format::Text),
        ];
        for (header, expected) in cases {
            assert_eq!(Format::accepted(header), expected, "{header:?}");
        }
    }

    #[test]
    fn the_page_has_a_row_a_family() {
        let page = page(&[("`weir test`", &[EATEN, BUILD])]);
        let row = "| `weir_test_eaten_datagrams_total` | counter | `who`, `how` | Datagrams that were eaten. |\n";
        assert!(page.contains("\n## `weir test`\n") && page.contains(row), "{page}");
        assert!(page.contains("| `weir_test_info` | info | `version` | What it is. |\n"), "{page}");
    }
}
