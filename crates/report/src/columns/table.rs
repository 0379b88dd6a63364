//! The columns, one line each. Nothing is derived from a column's name.

use super::Better::{Higher, Lower};
use super::Kind::{Estimate, Exact, Extreme, Flag, Share, Text};
use super::Statistic::{Counter, Max, Mean, P50, P99, P999, Rate, Setting};
use super::{Better, Column, Kind, Quantity, Statistic};

type Row = Column<'static>;

const fn row(
    name: &'static str,
    unit: &'static str,
    kind: Kind,
    statistic: Statistic,
    better: Option<Better>,
    about: &'static str,
) -> Row {
    Column { name, unit, kind, better, statistic, about }
}

const UP: Option<Better> = Some(Higher);
const DOWN: Option<Better> = Some(Lower);

/// The fixed first columns, in order.
#[rustfmt::skip]
pub static COLUMNS: [Row; 25] = [
    row("scenario", "", Text, Setting, None, "scenario name"),
    row("cell", "", Text, Setting, None, "cell name: its axis values"),
    row("repeat", "", Exact, Setting, None, "repeat, from 1"),
    row("transport", "", Text, Setting, None, "transport protocol"),
    row("loss_pct", "%", Exact, Setting, None, "one-way loss of the whole path, as configured"),
    row("latency_ms", "ms", Exact, Setting, None, "one-way delay of the whole path, as configured"),
    row("rate_mbit", "Mbit/s", Exact, Setting, None, "smallest configured rate on the path; empty: unlimited"),
    row("payload_bytes", "bytes", Exact, Setting, None, "bytes of a message"),
    row("duration_s", "s", Exact, Setting, None, "length of the sending window, the base of rates"),
    row("sent", "messages", Exact, Counter, None, "messages handed to the kernel"),
    row("delivered", "messages", Exact, Rate, UP, "messages received, including the drain, without duplicates"),
    row("undelivered", "messages", Exact, Rate, DOWN, "TCP: messages sent, but neither delivered nor known to be lost"),
    row("msgs_per_s", "1/s", Estimate, Rate, UP, "messages received within the sending window, per second"),
    row("mbit_per_s", "Mbit/s", Estimate, Rate, UP, "payload received within the sending window, per second"),
    row("delay_mean_us", "us", Estimate, Mean, DOWN, "mean one-way delay of delivered messages, from the send call"),
    row("delay_p50_us", "us", Estimate, P50, DOWN, "median delay; empty if the sample is too small"),
    row("delay_p99_us", "us", Estimate, P99, DOWN, "99th percentile of the delay; empty if the sample is too small"),
    row("delay_max_us", "us", Extreme, Max, DOWN, "largest delay"),
    row("retransmits", "segments", Exact, Rate, DOWN, "retransmitted TCP segments"),
    row("planned_drops", "packets", Exact, Counter, DOWN, "packets dropped by loss impairments, data direction"),
    row("queue_drops", "packets", Exact, Counter, DOWN, "packets dropped by emulated queues, data direction"),
    row("socket_drops", "datagrams", Exact, Counter, DOWN, "datagrams dropped at the receiver's socket"),
    row("emulator_drops", "packets", Exact, Counter, DOWN, "packets the emulator could not carry, data direction"),
    row("unexplained", "messages", Exact, Counter, None, "messages no counter accounts for; not 0: a bug in Weir"),
    row("valid", "", Flag, Counter, None, "whether rates, mean and 99th percentile can be trusted"),
];

/// The columns that the lab adds, in order.
#[rustfmt::skip]
pub static ADDED: [Row; 48] = [
    row("delivered_share", "", Share, Rate, UP, "share of the sent messages that were delivered"),
    row("lost_share", "", Share, Rate, DOWN, "share of the sent messages that were not delivered"),
    row("share_minus_expected", "", Share, Rate, None, "delivered_share minus the share that the configured loss leaves"),
    row("host_drops", "datagrams", Exact, Counter, DOWN, "datagrams dropped in the receiver's host: buffer full, wrong checksum, too late"),
    row("kernel_drops", "datagrams", Exact, Counter, DOWN, "packets dropped by kernels of hosts and routers: firewall, TTL, no route"),
    row("duplicates", "messages", Exact, Counter, DOWN, "messages received more than once"),
    row("reordered", "messages", Exact, Counter, DOWN, "messages received after a later one"),
    row("longest_gap", "messages", Extreme, Rate, DOWN, "max messages missing in a row"),
    row("delay_p999_us", "us", Estimate, P999, DOWN, "99.9th percentile of the delay; empty if the sample is too small"),
    row("delay_max_at_s", "s", Exact, Max, None, "arrival of the most delayed message, from the start of sending"),
    row("intended_delay_mean_us", "us", Estimate, Mean, DOWN, "mean delay from the due time of the message"),
    row("intended_delay_p99_us", "us", Estimate, P99, DOWN, "99th percentile of the delay from the due time of the message"),
    row("censored_delay_mean_us", "us", Estimate, Mean, DOWN, "mean delay, undelivered messages counted with their min possible delay"),
    row("censored_delay_p99_us", "us", Estimate, P99, DOWN, "99th percentile of the delay, undelivered messages counted the same way"),
    row("return_loss_pct", "%", Exact, Setting, None, "one-way loss of the return path, as configured"),
    row("return_latency_ms", "ms", Exact, Setting, None, "one-way delay of the return path, as configured"),
    row("return_planned_drops", "packets", Exact, Counter, DOWN, "packets dropped by loss impairments, return path"),
    row("return_queue_drops", "packets", Exact, Counter, DOWN, "packets dropped by emulated queues, return path"),
    row("connect_ms", "ms", Exact, Max, DOWN, "time until the slowest connection was up; empty: none came up or is needed"),
    row("lateness_max_us", "us", Extreme, Counter, None, "max lateness of a packet that the emulator released"),
    row("stall_max_us", "us", Extreme, Counter, None, "max time that a thread which only sleeps was kept from running"),
    row("standstill_pct", "%", Exact, Counter, None, "share of the sending window in which a CPU or the emulator stood still for 1 ms or more"),
    row("foreign_share", "", Exact, Counter, None, "share of the CPUs that other programs used"),
    row("load_mbit_per_s", "Mbit/s", Exact, Rate, None, "throughput of the load next to the measured traffic"),
    row("sent_msgs_per_s", "1/s", Exact, Rate, None, "messages handed to the kernel per second, until the last one left"),
    row("sent_mbit_per_s", "Mbit/s", Exact, Rate, None, "payload handed to the kernel per second"),
    row("sent_bytes", "bytes", Exact, Counter, None, "payload handed to the kernel"),
    row("received_bytes", "bytes", Exact, Rate, UP, "payload received within the sending window"),
    row("streams_connected", "", Exact, Counter, None, "connections that came up"),
    row("cwnd_mean_bytes", "bytes", Estimate, Rate, None, "mean congestion window of a connection"),
    row("rtt_mean_us", "us", Estimate, Rate, DOWN, "mean smoothed round-trip time, as the sender measures it"),
    row("receive_window_limited_pct", "%", Exact, Rate, None, "share of the busy time limited by the receive buffer"),
    row("send_buffer_limited_pct", "%", Exact, Rate, None, "share of the busy time limited by the send buffer"),
    row("jitter_us", "us", Exact, Mean, DOWN, "mean variation of the delay between datagrams (RFC 3550), from iperf3"),
    row("backlog_drops", "packets", Exact, Counter, DOWN, "direct links: packets dropped because a CPU's backlog was full"),
    row("receive_buffer_bytes", "bytes", Exact, Counter, None, "effective size of the receive buffer (SO_RCVBUF)"),
    row("buffer_level_max_bytes", "bytes", Extreme, Rate, None, "max level seen in the receive buffer"),
    row("buffer_full_pct", "%", Exact, Rate, None, "share of the readings with a receive buffer at least 90 % full"),
    row("longest_stall_ms", "ms", Extreme, Max, DOWN, "max time that datagrams waited and the program did not read"),
    row("cpu_user_pct", "%", Exact, Rate, None, "share of the receiver's CPU (or of all CPUs) in programs"),
    row("cpu_system_pct", "%", Exact, Rate, None, "share of it in the kernel for programs"),
    row("cpu_irq_pct", "%", Exact, Rate, None, "share of it in interrupts, by whole ticks"),
    row("cpu_softirq_pct", "%", Exact, Rate, None, "share of it in softirqs, by whole ticks"),
    row("interrupts_per_s", "1/s", Exact, Rate, None, "interrupts of that CPU"),
    row("traced_drops", "datagrams", Exact, Counter, DOWN, "traced: datagrams dropped by the kernel on the way to the receiver"),
    row("traced_receive_buffer_drops", "datagrams", Exact, Counter, DOWN, "traced_drops because the receive buffer was full"),
    row("traced_backlog_drops", "datagrams", Exact, Counter, DOWN, "traced_drops because a CPU's backlog was full"),
    row("net_rx_per_s", "1/s", Exact, Rate, None, "softirqs of that CPU that receive packets"),
];

/// The quantities over time, in the order of their panels.
#[rustfmt::skip]
pub static QUANTITIES: [Quantity; 7] = [
    Quantity { name: "received_mbit", unit: "Mbit/s", about: "received" },
    Quantity { name: "delivery_rate_mbit", unit: "Mbit/s", about: "delivery rate, as the sender estimates it" },
    Quantity { name: "cwnd_bytes", unit: "bytes", about: "congestion window" },
    Quantity { name: "rtt_us", unit: "us", about: "smoothed round-trip time" },
    Quantity { name: "retransmits", unit: "segments", about: "retransmitted segments" },
    Quantity { name: "largest_delay_us", unit: "us", about: "max delay of the messages that arrived" },
    Quantity { name: "buffer_level_bytes", unit: "bytes", about: "level of the receive buffer" },
];
