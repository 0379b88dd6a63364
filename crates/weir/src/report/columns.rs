//! The columns of a result: their order, units and meaning, and how to get at a record's fields by name.

use super::format;
use super::record::{Record, Row, Value};

/// A fixed column of `results.csv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Unit, empty where there is none.
    pub unit: &'static str,
    /// What it says.
    pub about: &'static str,
    /// How it behaves when it is judged.
    pub kind: Kind,
}

/// How a column behaves over repeats and against bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Set by the scenario.
    Setting,
    /// Estimates a property of the path: without an interval nothing can be concluded from it.
    Estimated,
    /// An observation, exact for its run.
    Observed,
    /// The largest of what was observed; over repeats, the largest of all.
    Maximum,
}

/// A field of a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Field<'a> {
    /// A word.
    Text(&'a str),
    /// A count.
    Count(i64),
    /// A number in the column's unit.
    Number(f64),
    /// Yes or no.
    Flag(bool),
    /// Not measured or not defined.
    Empty,
}

impl Field<'_> {
    /// As a number; a flag is 1 or 0.
    pub fn number(&self) -> Option<f64> {
        match *self {
            Field::Count(count) => Some(count as f64),
            Field::Number(number) => number.is_finite().then_some(number),
            Field::Flag(flag) => Some(f64::from(u8::from(flag))),
            Field::Text(text) => text.parse().ok(),
            Field::Empty => None,
        }
    }
}

const fn column(name: &'static str, unit: &'static str, kind: Kind, about: &'static str) -> Column {
    Column { name, unit, about, kind }
}

/// The fixed columns, in order.
pub const COLUMNS: [Column; 25] = [
    column("scenario", "", Kind::Setting, "scenario name"),
    column("cell", "", Kind::Setting, "cell name: its axis values"),
    column("repeat", "", Kind::Setting, "repeat, from 1"),
    column("transport", "", Kind::Setting, "transport protocol"),
    column("loss_pct", "%", Kind::Setting, "one-way loss of the whole path, as configured"),
    column("latency_ms", "ms", Kind::Setting, "one-way delay of the whole path, as configured"),
    column("rate_mbit", "Mbit/s", Kind::Setting, "smallest configured rate on the path; empty: unlimited"),
    column("payload_bytes", "bytes", Kind::Setting, "bytes of a message"),
    column("duration_s", "s", Kind::Setting, "sending window"),
    column("sent", "messages", Kind::Observed, "messages handed to the kernel"),
    column("delivered", "messages", Kind::Observed, "messages received, the drain included, duplicates not"),
    column("undelivered", "messages", Kind::Observed, "TCP: sent, and neither delivered nor known lost"),
    column("msgs_per_s", "1/s", Kind::Estimated, "messages received within the sending window, over that window"),
    column("mbit_per_s", "Mbit/s", Kind::Estimated, "the same as payload"),
    column("delay_mean_us", "us", Kind::Estimated, "mean one-way delay of delivered, undisturbed messages, from the send call"),
    column("delay_p50_us", "us", Kind::Estimated, "median delay; empty where the sample cannot support it"),
    column("delay_p99_us", "us", Kind::Estimated, "99th percentile of the delay; empty as above"),
    column("delay_max_us", "us", Kind::Maximum, "largest delay"),
    column("retransmits", "segments", Kind::Observed, "TCP segments sent again"),
    column("planned_drops", "packets", Kind::Observed, "dropped by loss impairments, data direction"),
    column("queue_drops", "packets", Kind::Observed, "dropped by emulated queues, data direction"),
    column("socket_drops", "datagrams", Kind::Observed, "dropped at the receiver's socket"),
    column("emulator_drops", "packets", Kind::Observed, "what the emulator could not carry, data direction"),
    column("unexplained", "messages", Kind::Observed, "what no counter accounts for; 0, or there is a fault"),
    column("valid", "", Kind::Observed, "whether throughput and delay can be believed"),
];

/// The columns that the lab adds, in order, and what they say.
pub const ADDED: [(&str, &str); 65] = [
    ("delivered_share", "delivered of sent"),
    ("share_minus_expected", "that, less what the configured loss leaves"),
    ("host_drops", "datagrams that reached the host and no program: buffer full, wrong checksum, or too late"),
    ("duplicates", "messages received again"),
    ("reordered", "messages received behind later ones"),
    ("longest_gap", "messages in a row that are missing, at most"),
    ("delay_n", "delays measured: delivered messages that no standstill of the machine disturbed"),
    ("disturbed_share", "of the messages delivered, those that a standstill disturbed: they are not in delay_*"),
    ("raw_delay_mean_us", "mean delay of all messages delivered, the disturbed ones too"),
    ("raw_delay_p50_us", "median of that"),
    ("raw_delay_p99_us", "99th percentile of that"),
    ("raw_delay_max_us", "largest of that"),
    ("delay_p999_us", "99.9th percentile of the delay; empty where the sample cannot support it"),
    ("delay_max_at_s", "when the most delayed message arrived, after the start of sending"),
    ("intended_delay_mean_us", "mean delay from the time at which the message was due"),
    ("intended_delay_p50_us", "median of that"),
    ("intended_delay_p99_us", "99th percentile of that"),
    ("intended_delay_max_us", "largest of that"),
    ("censored_delay_mean_us", "mean delay, every undelivered message taken at the least that it can have"),
    ("censored_delay_p99_us", "99th percentile of that"),
    ("censored_delay_max_us", "largest of that"),
    ("return_loss_pct", "one-way loss of the way back, as configured"),
    ("return_latency_ms", "one-way delay of the way back, as configured"),
    ("return_planned_drops", "packets dropped by loss impairments, on the way back"),
    ("return_queue_drops", "packets dropped by emulated queues, on the way back"),
    ("return_emulator_drops", "what the emulator could not carry, on the way back"),
    ("control_packets", "packets that are never dropped (ARP, ND, IGMP, MLD), both ways"),
    ("corrupted_packets", "packets that had a bit flipped, both ways"),
    ("connect_ms", "until the slowest connection was up; empty: none came up, or none is needed"),
    ("lateness_p99_us", "99th percentile of how late the emulator released packets"),
    ("lateness_max_us", "the latest that the emulator released a packet"),
    ("stall_max_us", "longest that a thread which only sleeps was kept from running"),
    ("standstill_pct", "share of the sending window in which a processor stood still or the emulator was late, of 1 ms or more each"),
    ("foreign_share", "share of the processors that others took"),
    ("load_mbit_per_s", "throughput of the bulk traffic beside the measured one"),
    ("model_mbit", "what a model of TCP expects: Mathis below 2 % loss, PFTK above; empty without loss"),
    ("model_low_mbit", "a third of that"),
    ("model_high_mbit", "three times that, but not more than the path carries"),
    ("sent_bytes", "payload handed to the kernel"),
    ("received_bytes", "payload received within the sending window"),
    ("streams_connected", "connections that came up"),
    ("cwnd_mean_bytes", "mean congestion window of a connection"),
    ("rtt_mean_us", "mean smoothed round-trip time, as the sender has it"),
    ("receive_window_limited_pct", "share of the time with data under way in which the receive buffer was the limit"),
    ("send_buffer_limited_pct", "share of the time with data under way in which the send buffer was the limit"),
    ("jitter_us", "mean variation of the delay from one datagram to the next (RFC 3550), as iperf3 tells it"),
    ("lost_share", "sent and not delivered, of sent"),
    ("sent_msgs_per_s", "messages handed to the kernel within the sending window, over that window"),
    ("sent_mbit_per_s", "the same as payload"),
    ("backlog_drops", "on direct links: packets that found a processor's backlog full (net.core.netdev_max_backlog)"),
    ("receive_buffer_bytes", "the receiver's buffer as the kernel granted it (SO_RCVBUF), bookkeeping included"),
    ("buffer_level_max_bytes", "the most that was seen in it"),
    ("buffer_full_pct", "share of the looks that saw it at least 90 % full"),
    (
        "longest_stall_ms",
        "longest time in which datagrams waited and nobody read: traced, or at least so long by looks",
    ),
    ("cpu_user_pct", "share of the receiver's processor (of all, if it has none) in programs, burners included"),
    ("cpu_system_pct", "in the kernel on behalf of programs"),
    ("cpu_irq_pct", "in interrupts; coarse, by whole ticks"),
    ("cpu_softirq_pct", "in softirqs; coarse, by whole ticks"),
    ("interrupts_per_s", "interrupts of that processor, those from others and the timer's included"),
    ("net_rx_per_s", "its softirqs that receive packets (NET_RX)"),
    ("net_rx_pct", "traced: share of its time in them"),
    ("traced_drops", "traced: datagrams on their way to the receiver that the kernel dropped"),
    ("traced_receive_buffer_drops", "of these, because the receive buffer was full"),
    ("traced_backlog_drops", "of these, because a processor's backlog was full"),
    ("traced_other_drops", "of these, elsewhere: the ledger says where"),
];

/// The axis that tells the receivers of a cell apart.
pub const RECEIVER: &str = "receiver";

/// What a column says, fixed or added.
pub fn about(name: &str) -> &'static str {
    let fixed = COLUMNS.iter().find(|column| column.name == name).map(|column| column.about);
    let added = || ADDED.iter().find(|(known, _)| *known == name).map(|(_, about)| *about);
    let receiver = (name == RECEIVER).then_some("which receiver the row is of");
    fixed.or_else(added).or(receiver).unwrap_or("set by the scenario")
}

/// Unit of a column, fixed or added; added ones tell by the end of their name.
pub fn unit(name: &str) -> &'static str {
    if let Some(column) = COLUMNS.iter().find(|column| column.name == name) {
        return column.unit;
    }
    let units = [
        ("_us", "us"),
        ("_ms", "ms"),
        ("_pct", "%"),
        ("_mbit", "Mbit/s"),
        ("_mbit_per_s", "Mbit/s"),
        ("_per_s", "1/s"),
        ("_bytes", "bytes"),
        ("_s", "s"),
    ];
    units.iter().find(|(end, _)| name.ends_with(end)).map_or("", |(_, unit)| unit)
}

/// How a column, fixed or added, behaves. Added columns that name a mean or a quantile are estimated, those that name a
/// maximum are that, the others are observations.
pub fn kind(name: &str) -> Kind {
    if let Some(column) = COLUMNS.iter().find(|column| column.name == name) {
        return column.kind;
    }
    let is_quantile = |word: &str| word.strip_prefix('p').is_some_and(|q| q.parse::<u32>().is_ok());
    match name.split('_').find(|word| *word == "max" || *word == "mean" || is_quantile(word)) {
        Some("max") => Kind::Maximum,
        Some(_) => Kind::Estimated,
        None => Kind::Observed,
    }
}

/// Which way a column is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

/// Which way a column, fixed or added, is good; `None`: nobody has said.
pub fn better(name: &str) -> Option<Better> {
    const HIGHER: [&str; 5] = ["delivered", "delivered_share", "msgs_per_s", "mbit_per_s", "received_bytes"];
    const LOWER: [&str; 7] =
        ["lost_share", "undelivered", "retransmits", "duplicates", "reordered", "connect_ms", "rtt_mean_us"];
    let is_delay = name.ends_with("_us") && (name.starts_with("delay_") || name.contains("_delay_"));
    if HIGHER.contains(&name) {
        Some(Better::Higher)
    } else if LOWER.contains(&name) || name.ends_with("_drops") || is_delay {
        Some(Better::Lower)
    } else {
        None
    }
}

/// That there is no such column, and which one is called nearly so.
pub(super) fn unknown<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let similarity = |candidate: &str| strsim::jaro_winkler(name, candidate);
    let nearest = known.into_iter().max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
    nearest.map_or(format!("no column `{name}`"), |nearest| format!("no column `{name}`, did you mean `{nearest}`?"))
}

/// Names of all columns of a run: the fixed ones, then those that its first record adds.
pub fn names(records: &[Record]) -> Vec<&str> {
    let added = records.first().map(|record| record.extra.as_slice()).unwrap_or_default();
    COLUMNS.iter().map(|column| column.name).chain(added.iter().map(|(name, _)| name.as_str())).collect()
}

/// The fixed fields of a row, in the order of [`COLUMNS`].
pub fn fields(row: &Row) -> [Field<'_>; 25] {
    let count = |n: u64| Field::Count(i64::try_from(n).unwrap_or(i64::MAX));
    let maybe_count = |n: Option<u64>| n.map_or(Field::Empty, count);
    let maybe = |n: Option<f64>| n.map_or(Field::Empty, Field::Number);
    [
        Field::Text(&row.scenario),
        Field::Text(&row.cell),
        count(row.repeat.into()),
        Field::Text(&row.transport),
        Field::Number(row.loss_pct),
        Field::Number(row.latency_ms),
        maybe(row.rate_mbit),
        count(row.payload_bytes),
        Field::Number(row.duration_s),
        count(row.sent),
        count(row.delivered),
        maybe_count(row.undelivered),
        Field::Number(row.msgs_per_s),
        Field::Number(row.mbit_per_s),
        maybe(row.delay_mean_us),
        maybe(row.delay_p50_us),
        maybe(row.delay_p99_us),
        maybe(row.delay_max_us),
        maybe_count(row.retransmits),
        count(row.planned_drops),
        count(row.queue_drops),
        maybe_count(row.socket_drops),
        count(row.emulator_drops),
        row.unexplained.map_or(Field::Empty, Field::Count),
        Field::Flag(row.valid),
    ]
}

/// A field by name: a fixed column, an added one, or an axis key. `None` if the record has nothing of that name.
pub fn field<'a>(record: &'a Record, name: &str) -> Option<Field<'a>> {
    if let Some(index) = COLUMNS.iter().position(|column| column.name == name) {
        return Some(fields(&record.row)[index]);
    }
    if let Some((_, value)) = record.extra.iter().find(|(key, _)| key == name) {
        return Some(value.map_or(Field::Empty, Field::Number));
    }
    record.axes.iter().find(|(key, _)| key == name).map(|(_, value)| Field::Text(value))
}

/// A field by name as a finite number.
pub fn number(record: &Record, name: &str) -> Option<f64> {
    field(record, name)?.number()
}

/// Whether the record is of a bulk transfer, which is told in bytes instead of messages.
pub fn is_bulk(record: &Record) -> bool {
    number(record, "received_bytes").is_some()
}

/// A field by name as a reader would write it.
pub fn text(record: &Record, name: &str) -> Option<String> {
    match field(record, name)? {
        Field::Text(text) => Some(text.to_owned()),
        Field::Flag(flag) => Some(flag.to_string()),
        Field::Empty => None,
        number => number.number().map(format::plain),
    }
}

/// Whether a field of this name has this value; numbers are compared to nine digits.
pub fn matches(record: &Record, name: &str, value: &Value) -> bool {
    match value {
        Value::Number(wanted) => {
            number(record, name).is_some_and(|found| (found - wanted).abs() <= 1e-9 * wanted.abs().max(1.0))
        }
        Value::Text(wanted) => text(record, name).is_some_and(|found| found == *wanted),
    }
}

/// A value of a column: a duration in the unit that suits it, or [`format::short`] with the column's unit where it says
/// more.
pub fn words(column: &str, value: f64) -> String {
    match unit(column) {
        "us" => format::duration(value),
        "ms" => format::duration(value * 1e3),
        "%" => format!("{} %", format::short(value)),
        "Mbit/s" => format!("{} Mbit/s", format::short(value)),
        "bytes" => format::bytes(value),
        _ => format::short(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_unit_of_their_column() {
        assert_eq!((words("loss_pct", 0.5), words("msgs_per_s", 93.71)), ("0.5 %".into(), "93.7".into()));
        assert_eq!(words("load_mbit_per_s", 12.5), "12.5 Mbit/s");
    }

    #[test]
    fn columns_are_the_rows_fields_in_order() {
        let json = serde_json::to_string(&Row::default()).unwrap();
        let mut last = 0;
        for column in COLUMNS {
            let at = json.find(&format!("\"{}\":", column.name)).expect(column.name);
            assert!(at >= last, "{} is out of order", column.name);
            last = at;
        }
        assert_eq!(serde_json::to_value(Row::default()).unwrap().as_object().unwrap().len(), COLUMNS.len());
    }

    #[test]
    fn every_name_reaches_its_own_field() {
        let row = Row { sent: 9, socket_drops: Some(4), unexplained: Some(-2), valid: true, ..Row::default() };
        let record = Record {
            row,
            extra: vec![("late_max_us".into(), Some(7.0)), ("share".into(), None)],
            axes: vec![("tcp.nodelay".into(), "true".into())],
            ..Record::default()
        };
        assert_eq!(number(&record, "sent"), Some(9.0));
        assert_eq!(number(&record, "socket_drops"), Some(4.0));
        assert_eq!(number(&record, "unexplained"), Some(-2.0));
        assert_eq!(number(&record, "late_max_us"), Some(7.0));
        assert_eq!((number(&record, "share"), field(&record, "nothing")), (None, None));
        assert!(matches(&record, "tcp.nodelay", &Value::Text("true".into())));
        assert!(matches(&record, "valid", &Value::Text("true".into())));
        assert!(!matches(&record, "sent", &Value::Number(9.1)));
        assert_eq!((kind("late_max_us"), kind("maximal"), unit("late_max_us")), (Kind::Maximum, Kind::Observed, "us"));
    }
}
