//! What the columns are: one row each, fixed or added. Nothing about a column is guessed from its name.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::column::Kind::{Accuracy, Amount, Count, Duration, Extreme, Flag, Level, Rate, Share, TimeShare};
use super::column::Statistic::{Counter, Delay, Throughput};
use super::column::{Column, Kind, Quantity, Statistic, Trials, quantity, row, set};

/// Of what was sent, that which arrived.
const DELIVERED: Kind =
    Share(Trials { successes: "delivered", trials: "sent", batches: DELIVERED_BY_NUMBER, rate: "msgs_per_s" });

/// The estimate of the delivered share by batches of the messages' numbers, whenever those came.
pub const DELIVERED_BY_NUMBER: &str = "delivered_share_by_number";

/// The fixed first columns, in order.
pub static COLUMNS: [Column; 25] = [
    set("scenario", "", "scenario name"),
    set("cell", "", "cell name: its axis values"),
    set("repeat", "", "repeat, from 1"),
    set("transport", "", "transport protocol"),
    set("loss_pct", "%", "one-way loss of the whole path, as configured"),
    set("latency_ms", "ms", "one-way delay of the whole path, as configured"),
    set("rate_mbit", "Mbit/s", "smallest configured rate on the path; empty: unlimited"),
    set("payload_bytes", "bytes", "bytes of a message"),
    set(
        "duration_s",
        "s",
        "sending window: what rates are over, though nothing is sent in a part of it, or some behind it",
    ),
    row("sent", "messages", Amount, Counter, "messages handed to the kernel"),
    row("delivered", "messages", Amount, Throughput, "messages received, the drain included, duplicates not").higher(),
    row("undelivered", "messages", Count, Throughput, "TCP: sent, and neither delivered nor known lost").lower(),
    row("msgs_per_s", "1/s", Rate, Throughput, "messages received within the sending window, over that window")
        .estimated()
        .higher(),
    row("mbit_per_s", "Mbit/s", Rate, Throughput, "the same as payload").estimated().higher(),
    row(
        "delay_mean_us",
        "us",
        Duration,
        Delay,
        "mean one-way delay of delivered, undisturbed messages, from the send call",
    )
    .estimated()
    .of_all("raw_delay_mean_us")
    .lower(),
    row("delay_p50_us", "us", Duration, Delay, "median delay; empty where the sample cannot support it")
        .estimated()
        .of_all("raw_delay_p50_us")
        .lower(),
    row("delay_p99_us", "us", Duration, Delay, "99th percentile of the delay; empty as above")
        .estimated()
        .of_all("raw_delay_p99_us")
        .lower(),
    row("delay_max_us", "us", Extreme, Delay, "largest delay").lower(),
    row("retransmits", "segments", Count, Throughput, "TCP segments sent again").lower(),
    row("planned_drops", "packets", Count, Counter, "dropped by loss impairments, data direction").lower(),
    row("queue_drops", "packets", Count, Counter, "dropped by emulated queues, data direction").lower(),
    row("socket_drops", "datagrams", Count, Counter, "dropped at the receiver's socket").lower(),
    row("emulator_drops", "packets", Count, Counter, "what the emulator could not carry, data direction").lower(),
    row("unexplained", "messages", Count, Counter, "what no counter accounts for; 0, or there is a fault"),
    row("valid", "", Flag, Counter, "whether throughput and delay can be believed"),
];

/// The columns that the lab adds, in order.
pub static ADDED: [Column; 108] = [
    row("delivered_share", "", DELIVERED, Throughput, "delivered of sent").higher(),
    row("share_minus_expected", "", DELIVERED, Throughput, "that, less what the configured loss leaves"),
    row(
        "host_drops",
        "datagrams",
        Count,
        Counter,
        "datagrams that reached the host and no program: buffer full, wrong checksum, or too late",
    )
    .lower(),
    row(
        "kernel_drops",
        "datagrams",
        Count,
        Counter,
        "datagrams, of connections packets, that ended in the kernels of hosts and routers: firewall, TTL exceeded, no route; the ledger has the place",
    )
    .lower(),
    row("duplicates", "messages", Count, Counter, "messages received again").lower(),
    row("reordered", "messages", Count, Counter, "messages received behind later ones").lower(),
    row("longest_gap", "messages", Extreme, Throughput, "messages in a row that are missing, at most").lower(),
    row(
        "delay_n",
        "messages",
        Amount,
        Throughput,
        "delays measured: of delivered messages that no standstill disturbed, or of all (docs/lab.md)",
    ),
    row(
        "disturbed_share",
        "",
        TimeShare,
        Counter,
        "of the messages delivered, those that a standstill disturbed: they are not in delay_*",
    ),
    row("raw_delay_mean_us", "us", Duration, Counter, "mean delay of all messages delivered, the disturbed ones too")
        .estimated()
        .lower(),
    row("raw_delay_p50_us", "us", Duration, Counter, "median of that").estimated().lower(),
    row("raw_delay_p99_us", "us", Duration, Counter, "99th percentile of that").estimated().lower(),
    row("raw_delay_max_us", "us", Extreme, Counter, "largest of that").lower(),
    row(
        "delay_p999_us",
        "us",
        Duration,
        Delay,
        "99.9th percentile of the delay; empty where the sample cannot support it",
    )
    .estimated()
    .lower(),
    row("delay_max_at_s", "s", Level, Delay, "when the most delayed message arrived, after the start of sending"),
    row("intended_delay_mean_us", "us", Duration, Delay, "mean delay from the time at which the message was due")
        .estimated()
        .lower(),
    row("intended_delay_p50_us", "us", Duration, Delay, "median of that").estimated().lower(),
    row("intended_delay_p99_us", "us", Duration, Delay, "99th percentile of that").estimated().lower(),
    row("intended_delay_max_us", "us", Extreme, Delay, "largest of that").lower(),
    row(
        "censored_delay_mean_us",
        "us",
        Duration,
        Delay,
        "mean delay, every undelivered message taken at the least that it can have",
    )
    .estimated()
    .lower(),
    row("censored_delay_p99_us", "us", Duration, Delay, "99th percentile of that").estimated().lower(),
    row("censored_delay_max_us", "us", Extreme, Delay, "largest of that").lower(),
    set("return_loss_pct", "%", "one-way loss of the way back, as configured"),
    set("return_latency_ms", "ms", "one-way delay of the way back, as configured"),
    row("return_planned_drops", "packets", Count, Counter, "packets dropped by loss impairments, on the way back")
        .lower(),
    row("return_queue_drops", "packets", Count, Counter, "packets dropped by emulated queues, on the way back").lower(),
    row("return_emulator_drops", "packets", Count, Counter, "what the emulator could not carry, on the way back")
        .lower(),
    row("control_packets", "packets", Count, Counter, "packets that are never dropped (ARP, ND, IGMP, MLD), both ways"),
    row("corrupted_packets", "packets", Count, Counter, "packets that had a bit flipped, both ways"),
    row(
        "connect_ms",
        "ms",
        Duration,
        Delay,
        "until the slowest connection was up; empty: none came up, or none is needed",
    )
    .lower(),
    row("lateness_p99_us", "us", Duration, Counter, "99th percentile of how late the emulator released packets")
        .estimated(),
    row("lateness_max_us", "us", Extreme, Counter, "the latest that the emulator released a packet"),
    row("stall_max_us", "us", Extreme, Counter, "longest that a thread which only sleeps was kept from running"),
    row(
        "standstill_pct",
        "%",
        TimeShare,
        Counter,
        "share of the sending window in which a processor stood still or the emulator was late, by 1 ms or more each time",
    ),
    row("foreign_share", "", TimeShare, Counter, "share of the processors that others took"),
    row("load_mbit_per_s", "Mbit/s", Rate, Throughput, "throughput of the bulk traffic beside the measured one"),
    set("model_mbit", "Mbit/s", "what a model of TCP expects: Mathis below 2 % loss, PFTK above; empty without loss"),
    set("model_low_mbit", "Mbit/s", "a third of that"),
    set("model_high_mbit", "Mbit/s", "three times that, but not more than the path carries"),
    row("sent_bytes", "bytes", Amount, Counter, "payload handed to the kernel"),
    row("received_bytes", "bytes", Amount, Throughput, "payload received within the sending window").higher(),
    row("streams_connected", "", Amount, Counter, "connections that came up"),
    row("cwnd_mean_bytes", "bytes", Level, Throughput, "mean congestion window of a connection").estimated(),
    row("rtt_mean_us", "us", Duration, Throughput, "mean smoothed round-trip time, as the sender has it")
        .estimated()
        .lower(),
    row(
        "receive_window_limited_pct",
        "%",
        TimeShare,
        Throughput,
        "share of the time with data under way in which the receive buffer was the limit",
    ),
    row(
        "send_buffer_limited_pct",
        "%",
        TimeShare,
        Throughput,
        "share of the time with data under way in which the send buffer was the limit",
    ),
    row(
        "jitter_us",
        "us",
        Duration,
        Delay,
        "mean variation of the delay from one datagram to the next (RFC 3550), as iperf3 tells it",
    )
    .lower(),
    row("lost_share", "", DELIVERED, Throughput, "sent and not delivered, of sent").lower(),
    row(
        "sent_msgs_per_s",
        "1/s",
        Rate,
        Throughput,
        "messages handed to the kernel, over the sending window or, where the last one left behind it, the time until then",
    ),
    row("sent_mbit_per_s", "Mbit/s", Rate, Throughput, "the same as payload"),
    row(
        "backlog_drops",
        "packets",
        Count,
        Counter,
        "on direct links: packets that found a processor's backlog full (net.core.netdev_max_backlog)",
    )
    .lower(),
    row(
        "receive_buffer_bytes",
        "bytes",
        Level,
        Counter,
        "the receiver's buffer as the kernel granted it (SO_RCVBUF), bookkeeping included",
    ),
    row("buffer_level_max_bytes", "bytes", Extreme, Throughput, "the most that was seen in it"),
    row("buffer_full_pct", "%", TimeShare, Throughput, "share of the looks that saw it at least 90 % full"),
    row(
        "longest_stall_ms",
        "ms",
        Extreme,
        Delay,
        "longest time in which datagrams waited and nobody read: traced, or at least so long by looks",
    )
    .lower(),
    row(
        "cpu_user_pct",
        "%",
        TimeShare,
        Throughput,
        "share of the receiver's processor (of all, if it has none) in programs, burners included",
    ),
    row("cpu_system_pct", "%", TimeShare, Throughput, "in the kernel on behalf of programs"),
    row("cpu_irq_pct", "%", TimeShare, Throughput, "in interrupts; coarse, by whole ticks"),
    row("cpu_softirq_pct", "%", TimeShare, Throughput, "in softirqs; coarse, by whole ticks"),
    row(
        "interrupts_per_s",
        "1/s",
        Rate,
        Throughput,
        "interrupts of that processor, those from others and the timer's included",
    ),
    row("net_rx_per_s", "1/s", Rate, Throughput, "its softirqs that receive packets (NET_RX)"),
    row("net_rx_pct", "%", TimeShare, Throughput, "traced: share of its time in them"),
    row(
        "traced_drops",
        "datagrams",
        Count,
        Counter,
        "traced: datagrams on their way to the receiver that the kernel dropped",
    )
    .lower(),
    row("traced_receive_buffer_drops", "datagrams", Count, Counter, "of these, because the receive buffer was full")
        .lower(),
    row("traced_backlog_drops", "datagrams", Count, Counter, "of these, because a processor's backlog was full")
        .lower(),
    row("traced_other_drops", "datagrams", Count, Counter, "of these, elsewhere: the ledger says where").lower(),
    row("unsent", "datagrams", Count, Throughput, "sFlow: datagrams that were due within the sending window and never sent")
        .lower(),
    row(
        "age_p50_us",
        "us",
        Duration,
        Counter,
        "sFlow: median time from when an agent had a datagram ready to when it was analysed; over TCP those that never were \
         count with the least that it can be",
    )
    .estimated()
    .lower(),
    row("age_p99_us", "us", Duration, Counter, "99th percentile of that").estimated().lower(),
    row("age_max_us", "us", Extreme, Counter, "largest of that").lower(),
    row(
        "windows",
        "",
        Amount,
        Counter,
        "sFlow: instants at which the analyser's estimates of an interface are held against the truth",
    ),
    row("flow_samples", "", Amount, Throughput, "samples of packets from the first of them to the last"),
    row(
        "frames_found_pct",
        "%",
        Accuracy,
        Throughput,
        "of the true frames, those that the analyser estimates, over all of them; each class of packets weighs the same",
    )
    .estimated(),
    row("bytes_found_pct", "%", Accuracy, Throughput, "of the true bytes, those that the analyser estimates").estimated(),
    row(
        "nominal_found_pct",
        "%",
        Accuracy,
        Throughput,
        "of the true frames, those that samples times the configured sampling rate make",
    )
    .estimated(),
    row(
        "frames_covered_pct",
        "%",
        Accuracy,
        Throughput,
        "of the analyser's 95 % intervals of frames, a class of packets and an instant each, those that hold the truth",
    ),
    row("bytes_covered_pct", "%", Accuracy, Throughput, "of its 95 % intervals of bytes, an instant each, the same"),
    row("counter_rates", "", Amount, Throughput, "rates from counters that are held against the truth"),
    row("counter_error_p50_pct", "%", Accuracy, Throughput, "median of how far these are off, up or down").lower(),
    row("counter_error_max_pct", "%", Extreme, Throughput, "the most that one is off").lower(),
    row(
        "missed_losses",
        "datagrams",
        Count,
        Counter,
        "datagrams that did not arrive, less those that the analyser knows to be lost: nobody can miss an agent's last ones",
    ),
    row("before", "samples", Count, Throughput, "monitor: samples in front of the first that the viewer knows of").lower(),
    row("missing_pct", "%", Accuracy, Throughput, "samples behind it that the viewer was told to be missing").lower(),
    row("missing_station", "samples", Count, Throughput, "of these, because the station could not send them").lower(),
    row("missing_network", "samples", Count, Throughput, "of these, between the machines").lower(),
    row("missing_host", "samples", Count, Throughput, "of these, in front of the socket of a receiving machine").lower(),
    row("missing_socket", "samples", Count, Throughput, "of these, because a receive buffer was full").lower(),
    row("missing_server", "samples", Count, Throughput, "of these, in a server, or with it").lower(),
    row("missing_others", "samples", Count, Throughput, "of these, elsewhere").lower(),
    row("unheard", "samples", Count, Throughput, "samples behind the last word of a station that is shown as silent").lower(),
    row("lost_datagrams", "datagrams", Count, Throughput, "datagrams of samples that did not come").lower(),
    row(
        "samples_per_loss",
        "",
        Accuracy,
        Throughput,
        "the share of samples that is missing over that of datagrams: 1 where a lost datagram costs what was in it",
    )
    .lower(),
    row("gap_age_p99_us", "us", Duration, Counter, "from the end of a gap to when it was told, 99th percentile")
        .estimated()
        .lower(),
    row("gap_age_max_us", "us", Extreme, Counter, "largest of that").lower(),
    row(
        "closed_us",
        "us",
        Extreme,
        Counter,
        "from the last sample of a channel to when all of its samples were shown or told to be missing, the latest channel",
    )
    .lower(),
    row("silence_max_us", "us", Extreme, Counter, "the longest in which nothing of a station was shown").lower(),
    row("floods", "", Amount, Throughput, "protect: floods that there were within the sending window"),
    row("found_pct", "%", Accuracy, Throughput, "of these, those for which a route was wanted at any time, however late"),
    row("stopped_pct", "%", Accuracy, Throughput, "of these, those for which a route was wanted while they went on"),
    row(
        "reaction_p50_us",
        "us",
        Duration,
        Throughput,
        "from the first packet of a flood to when a route against it was wanted, median; floods against which none ever was count \
         with the least that it can be",
    )
    .estimated()
    .lower(),
    row("reaction_p99_us", "us", Duration, Throughput, "99th percentile of that").estimated().lower(),
    row("reaction_max_us", "us", Extreme, Throughput, "largest of that").lower(),
    row(
        "decision_p99_us",
        "us",
        Duration,
        Throughput,
        "from when the analyser had a flood's first sample above the threshold to when a route was wanted, 99th percentile",
    )
    .estimated()
    .lower(),
    row("alarms", "", Amount, Throughput, "protect: hosts and prefixes of which it was told that they are attacked"),
    row("false_alarms", "", Amount, Throughput, "of these, those that were not flooded").lower(),
    row("doubted", "", Amount, Throughput, "those of which the evidence was not believed: nothing is done about them"),
    row("false_routes", "", Amount, Throughput, "those that were not flooded, and for which a route was wanted").lower(),
    row("unexported", "datagrams", Count, Throughput, "protect: datagrams that were due within the sending window and never sent")
        .lower(),
];

/// The quantities over time, in the order of their panels.
pub const QUANTITIES: [Quantity; 7] = [
    quantity("received_mbit", "Mbit/s", "received"),
    quantity("delivery_rate_mbit", "Mbit/s", "delivery rate, as the sender estimates it"),
    quantity("cwnd_bytes", "bytes", "congestion window"),
    quantity("rtt_us", "us", "smoothed round-trip time"),
    quantity("retransmits", "segments", "segments sent again"),
    quantity("largest_delay_us", "us", "largest delay of the messages that arrived"),
    quantity("buffer_level_bytes", "bytes", "level of the receive buffer"),
];

/// The axis that tells the receivers of a cell apart.
pub const RECEIVER: &str = "receiver";

/// A column by name, fixed or added. `None`: an axis key, or a column of another version.
pub fn column(name: &str) -> Option<&'static Column> {
    BY_NAME.get(name).copied()
}

static BY_NAME: LazyLock<HashMap<&str, &Column>> =
    LazyLock::new(|| COLUMNS.iter().chain(&ADDED).map(|column| (column.name, column)).collect());

/// Where a fixed column is among [`COLUMNS`].
pub(super) fn place(name: &str) -> Option<usize> {
    PLACES.get(name).copied()
}

static PLACES: LazyLock<HashMap<&str, usize>> =
    LazyLock::new(|| COLUMNS.iter().enumerate().map(|(place, column)| (column.name, place)).collect());

/// What a column says.
pub fn about(name: &str) -> &'static str {
    column(name).map_or("a column of another version of weir", |column| column.about)
}

/// Unit of a column or of a quantity over time; empty where there is none, or no such thing.
pub fn unit(name: &str) -> &'static str {
    let quantity = || QUANTITIES.iter().find(|quantity| quantity.name == name).map(|quantity| quantity.unit);
    column(name).map(|column| column.unit).or_else(quantity).unwrap_or_default()
}

/// What sort of quantity a column is; `None`: no such column.
pub fn kind(name: &str) -> Option<Kind> {
    column(name).map(|column| column.kind)
}

/// What must have gone undisturbed for a column to be believed; `None`: no such column.
pub fn rests_on(name: &str) -> Option<Statistic> {
    column(name).map(|column| column.rests_on)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::columns::Kind::Setting;

    #[test]
    fn each_column_is_there_once_and_says_what_it_is() {
        let all = || COLUMNS.iter().chain(&ADDED);
        let names: BTreeSet<&str> = all().map(|column| column.name).collect();
        assert_eq!(names.len(), COLUMNS.len() + ADDED.len());
        for column in all() {
            assert!(!column.about.is_empty(), "{}", column.name);
            assert_eq!(column.kind == Setting, column.rests_on == Statistic::Setting, "{}", column.name);
            assert!(column.kind != Setting || (!column.estimated && column.better.is_none()), "{}", column.name);
        }
    }

    #[test]
    fn kinds_fit_their_units() {
        for Column { name, unit, kind, .. } in COLUMNS.iter().chain(&ADDED) {
            let fits = match kind {
                Setting => true,
                Flag => unit.is_empty(),
                Count => ["messages", "packets", "datagrams", "segments", "samples"].contains(unit),
                Amount => ["messages", "bytes", ""].contains(unit),
                Share(_) => unit.is_empty(),
                Rate => ["1/s", "Mbit/s"].contains(unit),
                Duration => ["us", "ms"].contains(unit),
                TimeShare => ["", "%"].contains(unit),
                Level => ["s", "bytes"].contains(unit),
                Extreme => ["us", "ms", "bytes", "messages", "%"].contains(unit),
                Accuracy => ["%", ""].contains(unit),
            };
            assert!(fits, "{name}: {kind:?} in {unit:?}");
        }
    }

    #[test]
    fn shares_are_of_columns() {
        for column in COLUMNS.iter().chain(&ADDED) {
            if let Share(Trials { successes, trials, rate, .. }) = column.kind {
                assert_eq!((kind(successes), kind(trials), kind(rate)), (Some(Amount), Some(Amount), Some(Rate)));
            }
        }
    }

    #[test]
    fn nothing_is_guessed() {
        for name in ["late_max_us", "delay_mean_seconds", "tcp.nodelay", RECEIVER] {
            assert_eq!((kind(name), unit(name), rests_on(name)), (None, "", None), "{name}");
        }
        assert_eq!(about("late_max_us"), "a column of another version of weir");
    }
}
