//! The sending end: paces messages for a window, then lets the connection drain.

pub(crate) mod channel;
mod message;
pub(crate) mod sockets;

use std::net::SocketAddr;

use weir_program::clock::{self, Nanos, nanos, now};
use weir_program::stop::Stop;

use self::channel::{Channel, Outcome};
use self::message::Messages;
use crate::{Departure, Exchange, Pacing, SendReport, SenderSettings, TrafficError, Transport, Window};

/// A source of external messages, see [`Sender::relay`].
pub trait Source {
    /// The next message: its due time, ns since the start of the window, and its bytes. `None`: there are no more.
    fn next(&mut self) -> Option<(Nanos, &[u8])>;

    /// The message was handed to the kernel. If not, the next one follows all the same.
    fn sent(&mut self);
}

/// A socket that is ready to send.
#[derive(Debug)]
pub struct Sender {
    settings: SenderSettings,
    channel: Channel,
}

impl Sender {
    /// Creates the socket in the calling thread's network namespace. TCP and QUIC connect later, in [`Self::run`].
    pub fn open(settings: &SenderSettings) -> Result<Self, TrafficError> {
        settings.validate()?;
        Ok(Self { settings: settings.clone(), channel: Channel::open(settings)? })
    }

    /// A sender through an existing, open channel.
    pub(crate) fn over(channel: Channel, settings: &SenderSettings) -> Self {
        Self { settings: settings.clone(), channel }
    }

    /// Its own address; unspecified until the kernel has chosen one. `None`: the kernel does not report it.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.channel.local_addr()
    }

    /// The traffic class or type of service of its packets in the kernel.
    #[cfg(test)]
    pub(crate) fn traffic_class(&self) -> Option<u32> {
        self.channel.traffic_class()
    }

    /// Sends for the whole window, then (TCP, QUIC) waits for the drain. Returns early if `stop` is set.
    ///
    /// Opens and closes the window of `exchange`. Errors are counted in the report: a failed connection is a report
    /// with 0 messages.
    pub fn run(self, exchange: &Exchange, stop: &Stop) -> SendReport {
        self.drive(None, exchange, stop)
    }

    /// As [`Self::run`], with external messages, each at its time: payload, interval and pacing of the settings are not
    /// used. The source frames messages for streams.
    pub fn relay(self, source: &mut dyn Source, exchange: &Exchange, stop: &Stop) -> SendReport {
        self.drive(Some(source), exchange, stop)
    }

    fn drive(self, source: Option<&mut dyn Source>, exchange: &Exchange, stop: &Stop) -> SendReport {
        let _closes = CloseOnDrop(exchange);
        clock::precise_timers();
        let messages = Messages::new(&self.settings);
        let (send_buffer, incarnation) = (self.channel.send_buffer(), messages.incarnation());
        let report = SendReport { send_buffer, incarnation, ..SendReport::default() };
        let mut run = Run { settings: self.settings, channel: self.channel, messages, exchange, stop, report };
        if run.start() {
            let window = run.window(source);
            exchange.close(run.report.sent, now());
            run.finish(window);
        }
        let Run { mut channel, mut report, .. } = run;
        report.local = channel.local_addr();
        report.errors = channel.take_errors();
        report.stopped = stop.is_set();
        report
    }
}

/// A run in progress.
struct Run<'a> {
    settings: SenderSettings,
    channel: Channel,
    messages: Messages,
    exchange: &'a Exchange,
    stop: &'a Stop,
    report: SendReport,
}

impl Run<'_> {
    /// Connects if needed. `false`: there is no peer.
    fn start(&mut self) -> bool {
        if !self.settings.transport.connects() || self.channel.is_connected() {
            return true;
        }
        let begin = now();
        let deadline = begin.saturating_add(nanos(self.settings.connect_timeout));
        let is_up = self.channel.connect(self.settings.to, deadline, self.stop);
        self.report.connect = is_up.then(|| std::time::Duration::from_nanos(now() - begin));
        is_up
    }

    /// Sends messages from now to the end of the window.
    fn window(&mut self, source: Option<&mut dyn Source>) -> Window {
        let start = now();
        let window = Window { start, end: start.saturating_add(nanos(self.settings.duration)) };
        self.exchange.open(window);
        self.report.window = Some(window);
        let ours = source.is_none();
        self.reserve(ours);
        if ours && self.settings.in_batches() {
            self.batches(window);
        } else {
            self.one_by_one(source, window);
        }
        let (at, settings) = (now(), &self.settings);
        // Messages sent after the window took time as well.
        let over = if self.report.last_send > Some(window.end) { at } else { at.min(window.end) };
        self.report.used = std::time::Duration::from_nanos(over - start);
        let interval = nanos(settings.interval);
        if ours && settings.pacing == Pacing::Schedule && interval > 0 {
            let due = due_within(at.min(window.end) - start, interval, self.report.sent);
            self.report.due = Some(settings.count.map_or(due, |count| due.min(count.get())));
        }
        self.report.blocked = self.channel.blocked();
        window
    }

    /// Sends each message in its own call: those of the source, or our own.
    fn one_by_one(&mut self, mut source: Option<&mut dyn Source>, window: Window) {
        let interval = nanos(self.settings.interval);
        // Every scheduled datagram is sent, even late: otherwise a rerun could have fewer.
        let scheduled = source.is_some() || self.settings.pacing == Pacing::Schedule;
        let all = scheduled && self.settings.transport == Transport::Udp;
        // No announcement can follow half a message. A receiver in this process needs none, and must learn of the end
        // in time.
        let patience = if self.settings.announce { self.drained(window) } else { window.end };
        let mut intended = window.start;
        while self.left() > 0 {
            let theirs = match &mut source {
                Some(source) => match source.next() {
                    Some((due, message)) => {
                        intended = window.start.saturating_add(due);
                        Some(message)
                    }
                    None => break,
                },
                None => None,
            };
            let mut at = now();
            while at < intended.min(window.end) && !self.stop.is_set() {
                self.channel.sleep(intended.min(window.end), self.stop);
                at = now();
            }
            if (if all { intended } else { at }) >= window.end || at >= self.latest(window) || self.stop.is_set() {
                break;
            }
            if theirs.is_none() {
                self.messages.stamp(0, self.report.sent, intended, at);
            }
            let message = theirs.unwrap_or(self.messages.first());
            let (length, outcome) = (message.len(), self.channel.send(message, patience, self.stop));
            match outcome {
                Outcome::Sent => {
                    if let Some(source) = &mut source {
                        source.sent();
                    }
                    self.count(intended, at, length);
                    self.exchange.set_sent(self.report.sent);
                }
                Outcome::Refused => {}
                Outcome::Late { handed_over } => {
                    self.report.partial_bytes = handed_over;
                    break;
                }
                Outcome::Broken => break,
            }
            let last = if scheduled { intended } else { now() };
            intended = last.saturating_add(interval);
        }
    }

    /// Sends the messages of a schedule, all due ones at once, then none for a quantum. Every one is sent, even late.
    /// Without an interval batch follows batch, as fast as the machine can.
    fn batches(&mut self, window: Window) {
        let (interval, quantum) = (nanos(self.settings.interval), nanos(self.settings.quantum));
        let scheduled = (window.end - window.start).div_ceil(interval.max(1));
        let count = self.left().min(if interval > 0 { scheduled } else { u64::MAX });
        let intended = |number: u64| window.start.saturating_add(number.saturating_mul(interval));
        let mut next = 0;
        let mut wake = window.start;
        while next < count && !self.stop.is_set() {
            let at = now();
            if at < wake {
                self.channel.sleep(wake, self.stop);
                continue;
            }
            let due = (at - window.start).checked_div(interval).map_or(count, |due| (due + 1).min(count));
            if !self.send_due(&mut next, due, window) {
                break;
            }
            // Waiting longer for the last ones would send them after the window.
            wake = intended(next).max(at.saturating_add(quantum).min(intended(count - 1)));
        }
    }

    /// Sends the messages from number `next` of the schedule up to before `due`. `false`: sending has ended.
    fn send_due(&mut self, next: &mut u64, due: u64, window: Window) -> bool {
        let interval = nanos(self.settings.interval);
        let patience = if self.settings.batch.is_some() { window.end } else { self.drained(window) };
        while *next < due {
            let (at, first) = (now(), self.report.sent);
            if at >= self.latest(window) || self.stop.is_set() {
                return false;
            }
            let intended = |number: u64| if interval > 0 { window.start + number * interval } else { at };
            let count = (due - *next).min(self.messages.room() as u64) as usize;
            for (place, number) in (0..count).zip(*next..) {
                self.messages.stamp(place, first + place as u64, intended(number), at);
            }
            let (taken, outcome) = self.channel.send_batch(self.messages.batch(count), patience, self.stop);
            for number in (*next..).take(taken) {
                self.count(intended(number), at, self.messages.length());
            }
            self.exchange.set_sent(self.report.sent);
            *next += taken as u64;
            match outcome {
                Outcome::Sent => {}
                Outcome::Refused => *next += 1,
                Outcome::Late { .. } | Outcome::Broken => return false,
            }
        }
        true
    }

    /// When a sender that is behind its schedule gives up the rest.
    fn latest(&self, window: Window) -> Nanos {
        let overtime = if self.settings.batch.is_some() { 0 } else { nanos(self.settings.overtime) };
        window.end.saturating_add(overtime)
    }

    /// When the drain of a sender that has used its whole window ends.
    fn drained(&self, window: Window) -> Nanos {
        window.end.saturating_add(nanos(self.settings.drain))
    }

    /// Messages that may still be sent.
    fn left(&self) -> u64 {
        self.settings.count.map_or(u64::MAX, |count| count.get().saturating_sub(self.report.sent))
    }

    /// Counts a message of this many bytes that the kernel has accepted.
    fn count(&mut self, intended: Nanos, at: Nanos, length: usize) {
        let report = &mut self.report;
        report.lateness.record(at - intended);
        report.first_send.get_or_insert(at);
        report.last_send = Some(at);
        if report.departures.len() < report.departures.capacity() {
            report.departures.push(Departure { intended, sent: at });
        }
        report.sent += 1;
        report.sent_bytes += length as u64;
    }

    /// Announces the end if requested, and waits until the peer has received everything.
    fn finish(&mut self, window: Window) {
        let deadline = self.drained(window).min(now().saturating_add(nanos(self.settings.drain)));
        if self.settings.announce && self.report.partial_bytes == 0 {
            let end = self.messages.end(self.report.sent);
            self.report.announcements = self.channel.announce(&end, deadline, self.stop);
        }
        self.channel.drain(self.exchange, deadline, self.stop);
        self.report.tcp_after_drain = self.channel.tcp_info();
        if let Some(quic) = self.channel.quic() {
            (self.report.lost_packets, self.report.left_behind) = (quic.lost_packets, quic.left_behind);
            self.report.acknowledged = quic.acknowledged;
            // They leave in order, the announcements last.
            self.report.never_left = quic.have_left.map_or(0, |left| self.report.sent.saturating_sub(left));
        }
    }

    /// Reserves room for the times of messages, so that none is allocated while sending. The number of external ones is
    /// unknown.
    fn reserve(&mut self, ours: bool) {
        let settings = &self.settings;
        let expected = (nanos(settings.duration) / nanos(settings.interval).max(1) + 2).min(self.left());
        let expected = if ours { usize::try_from(expected).unwrap_or(usize::MAX) } else { usize::MAX };
        self.report.departures.reserve_exact(expected.min(settings.keep_departures));
    }
}

/// Messages due in a time, at an interval of whole nanoseconds. A rate's interval may be rounded down: a message that
/// is due at the very end only because of that counts only if it was `sent`.
fn due_within(time: Nanos, interval: Nanos, sent: u64) -> u64 {
    let due = time.div_ceil(interval);
    let last = due.saturating_sub(1);
    let rest = time - last * interval;
    // Rounding made it early by less than 1 ns per message before it; one that fits completely is not rounded.
    if rest < interval && rest < last { last.max(sent.min(due)) } else { due }
}

/// Lets the receiver end, whatever happens to the sender.
struct CloseOnDrop<'a>(&'a Exchange);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close(self.0.sent(), now());
    }
}

#[cfg(test)]
mod tests {
    use super::due_within;

    #[test]
    fn what_rounding_alone_makes_due_is_no_shortfall() {
        let second = 1_000_000_000;
        // 3000 a second is 333,333.3 ns.
        assert_eq!(due_within(3 * second, 333_333, 9000), 9000);
        assert_eq!(due_within(3 * second, 333_333, 9001), 9001);
        assert_eq!(due_within(3 * second, 333_333, 8000), 9000);
        assert_eq!(due_within(second, 10_000_000, 0), 100);
        assert_eq!(due_within(second + 1_000_000, 10_000_000, 0), 101);
        assert_eq!(due_within(50_000_000, 10, 0), 5_000_000);
        assert_eq!(due_within(0, 10, 0), 0);
    }
}
