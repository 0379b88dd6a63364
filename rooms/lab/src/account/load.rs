//! What a receiver was burdened with: offered rate, its buffer, its processor.

use std::time::Duration;

use weir_kernel::processors::{Activity, Line, Times};
use weir_kernel::trace::Drop;
use weir_report::record::{Row, Timeline};
use weir_report::timelines;
use weir_stats::binomial;
use weir_traffic::{SendReport, Transport};

use super::traced::{is_full_backlog, is_full_buffer};
use super::{PathAccount, window_of};
use crate::watch::{self, Look};

impl PathAccount<'_> {
    /// The columns about it, in order.
    pub(super) fn load_columns(&self, row: &Row) -> [(&'static str, Option<f64>); 18] {
        let sent = self.messages().map(|(sent, _)| sent);
        let datagrams = sent.is_some() && self.cell.scenario.traffic.transport == Transport::Udp;
        let share = binomial::share(row.delivered, row.sent).filter(|_| datagrams);
        let offered = sent.and_then(offered);
        let backlog = self.totals(&self.path.forward).backlog;
        let direct = self.measured.topology.links.iter().any(|link| link.direct);
        let looks = self.looks();
        let most = looks.iter().map(|look| look.level.bytes).max();
        let activity = self.activity();
        let seconds = self.measured.watched.as_ref().map_or(0.0, |watched| watched.seconds);
        let time = activity.as_ref().map(Activity::time).filter(|time| !time.total().is_zero());
        let part =
            |of: fn(&Times) -> Duration| time.as_ref().map(|time| of(time).div_duration_f64(time.total()) * 100.0);
        let rate = |count: Option<u64>| count.filter(|_| seconds > 0.0).map(|count| count as f64 / seconds);
        let lines = activity.as_ref().map(|activity| &activity.lines).filter(|lines| !lines.is_empty());
        let drops = self.traced_drops();
        let traced = |wanted: &dyn Fn(&Drop) -> bool| {
            let those = drops.as_ref()?.iter().filter(|drop| wanted(drop));
            Some(those.map(|drop| drop.datagrams).sum::<u64>() as f64)
        };
        let stall = self.traced_socket().map(|socket| socket.longest_stall_ns as f64 / 1e6);
        let seen = || watch::longest_stall(looks).map(|stall| stall.as_secs_f64() * 1e3);
        let granted = self.received().filter(|_| datagrams).and_then(|received| received.receive_buffer);
        [
            ("lost_share", share.map(|share| 1.0 - share.value)),
            ("sent_msgs_per_s", offered),
            ("sent_mbit_per_s", offered.map(|rate| rate * self.message_bits() / 1e6)),
            ("backlog_drops", (datagrams && direct).then_some(backlog as f64)),
            ("receive_buffer_bytes", granted.map(|bytes| bytes as f64)),
            ("buffer_level_max_bytes", most.map(f64::from)),
            ("buffer_full_pct", watch::share_above(looks, NEARLY_FULL).map(|share| share * 100.0)),
            ("longest_stall_ms", stall.or_else(seen)),
            ("cpu_user_pct", part(|time| time.user)),
            ("cpu_system_pct", part(|time| time.system)),
            ("cpu_irq_pct", part(|time| time.irq)),
            ("cpu_softirq_pct", part(|time| time.softirq)),
            ("interrupts_per_s", rate(lines.map(|lines| lines.iter().map(Line::total).sum()))),
            ("net_rx_per_s", rate(activity.as_ref().and_then(|activity| activity.softirq("NET_RX")))),
            ("net_rx_pct", self.net_rx_pct()),
            ("traced_drops", traced(&|_| true)),
            ("traced_receive_buffer_drops", traced(&is_full_buffer)),
            ("traced_backlog_drops", traced(&is_full_backlog)),
        ]
    }

    /// The largest delays, and the level of the receiver's buffer, over time.
    pub(super) fn of_messages(&self) -> Vec<Timeline> {
        let course = self.times.iter().filter(|times| !times.course.is_empty());
        let course = course.map(|times| Timeline { name: "largest_delay_us".into(), points: times.course.clone() });
        course.chain(self.buffer_level()).collect()
    }

    fn buffer_level(&self) -> Option<Timeline> {
        let looks = self.looks();
        if looks.is_empty() {
            return None;
        }
        let point = |look: &Look| ((look.at.as_secs_f64() * 1e4).round() / 1e4, f64::from(look.level.bytes));
        let points: Vec<_> = looks.iter().map(point).collect();
        Some(Timeline { name: "buffer_level_bytes".into(), points: timelines::thinned(&points, MOST_POINTS) })
    }

    fn looks(&self) -> &[Look] {
        let watched = self.measured.watched.as_ref();
        watched.and_then(|watched| watched.buffers.get(self.receiver)).map_or(&[], Vec::as_slice)
    }

    /// Share of the receiver's processor, or of all, in softirqs that receive packets; `None`: not traced.
    fn net_rx_pct(&self) -> Option<f64> {
        let trace = self.measured.trace.as_ref().filter(|trace| !trace.receive_softirq_ns.is_empty())?;
        let seconds = self.measured.watched.as_ref().map(|watched| watched.seconds).filter(|seconds| *seconds > 0.0)?;
        let topology = &self.measured.topology;
        let (ns, processors) = match topology.nodes[topology.traffic.receivers[self.receiver]].processor {
            Some(processor) => (*trace.receive_softirq_ns.get(processor)?, 1),
            None => (trace.receive_softirq_ns.iter().sum(), trace.receive_softirq_ns.len()),
        };
        (ns > 0).then(|| ns as f64 / 1e9 / seconds / processors as f64 * 100.0)
    }

    /// What the receiver's processor did in the window, or all of them.
    fn activity(&self) -> Option<Activity> {
        let topology = &self.measured.topology;
        let processor = topology.nodes[topology.traffic.receivers[self.receiver]].processor;
        self.measured.watched.as_ref()?.activity_of(processor)
    }
}

/// Messages sent a second, of the sending window; of a sender that fell behind, of the time until its last one left.
fn offered(sent: &SendReport) -> Option<f64> {
    let until_last = sent.last_send.zip(sent.first_send).map_or(0, |(last, first)| last.saturating_sub(first));
    let seconds = window_of(sent).as_secs_f64().max(until_last as f64 / 1e9);
    (sent.sent > 0 && seconds > 0.0).then(|| sent.sent as f64 / seconds)
}

/// From this part on a buffer counts as full: a datagram more may not fit.
const NEARLY_FULL: f64 = 0.9;

/// Points of a timeline that are kept.
const MOST_POINTS: usize = 400;

#[cfg(test)]
mod tests {
    use weir_traffic::Window;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Seconds that rates are over, and messages sent a second, of 100 from `first` to `last` in a window of ten seconds that
    /// begins at 5 s.
    fn of(first: u64, last: u64, stopped: bool) -> (u64, Option<f64>) {
        let (window, used) = (Window { start: 5 * SECOND, end: 15 * SECOND }, Duration::from_nanos(last - 5 * SECOND));
        let (first_send, last_send) = (Some(first), Some(last));
        let report = SendReport {
            sent: 100,
            window: Some(window),
            used,
            first_send,
            last_send,
            stopped,
            ..SendReport::default()
        };
        (window_of(&report).as_secs(), offered(&report))
    }

    #[test]
    fn rates_are_over_the_window_whatever_part_of_it_is_silent() {
        // In one burst of a second; to the end; 10 s longer; stopped.
        assert_eq!(of(5 * SECOND, 6 * SECOND, false), (10, Some(10.0)));
        assert_eq!(of(5 * SECOND, 15 * SECOND, false), (10, Some(10.0)));
        assert_eq!(of(5 * SECOND, 25 * SECOND, false), (10, Some(5.0)));
        assert_eq!(of(5 * SECOND, 9 * SECOND, true), (4, Some(25.0)));
        assert_eq!(offered(&SendReport::default()), None);
    }
}
