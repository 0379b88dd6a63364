//! The sending end: paces messages for a window, then lets the connection drain.

mod channel;

use std::net::SocketAddr;

use weir_wire::probe::{BASE_LEN, EXTENDED_LEN, Extension, Kind, Probe};

use self::channel::{Channel, Outcome};
use super::clock::{self, Nanos, nanos, now};
use super::{Exchange, Pacing, SendReport, SenderSettings, TrafficError, Transport, Window};
use crate::service::stop::Stop;

/// A socket that is ready to send.
#[derive(Debug)]
pub struct Sender {
    settings: SenderSettings,
    channel: Channel,
}

impl Sender {
    /// Makes the socket in the calling thread's network namespace. TCP and QUIC connect later, in [`Self::run`].
    pub fn open(settings: &SenderSettings) -> Result<Self, TrafficError> {
        settings.validate()?;
        Ok(Self { settings: settings.clone(), channel: Channel::open(settings)? })
    }

    /// Its own address; unspecified as long as the kernel has not chosen one. `None`: the kernel does not tell.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.channel.local_addr()
    }

    /// Sends for the whole window, then (TCP, QUIC) waits for the drain. Returns early if `stop` is set.
    ///
    /// Opens and closes the window of `exchange`. What goes wrong is counted in the report: a connection that is never
    /// made is a report with 0 messages.
    pub fn run(self, exchange: &Exchange, stop: &Stop) -> SendReport {
        let _closes = CloseOnDrop(exchange);
        clock::precise_timers();
        let report = SendReport { send_buffer: self.channel.send_buffer(), ..SendReport::default() };
        let message = Message::new(&self.settings);
        let mut run = Run { settings: self.settings, channel: self.channel, message, exchange, stop, report };
        if run.start() {
            run.window();
            exchange.close(run.report.sent, now());
            run.finish();
        }
        let Run { channel, mut report, .. } = run;
        report.local = channel.local_addr();
        report.errors = channel.into_errors();
        report.stopped = stop.is_set();
        report
    }
}

/// A run under way.
struct Run<'a> {
    settings: SenderSettings,
    channel: Channel,
    message: Message,
    exchange: &'a Exchange,
    stop: &'a Stop,
    report: SendReport,
}

impl Run<'_> {
    /// Connects and says hello, where that is needed. `false`: there is nobody to send to.
    fn start(&mut self) -> bool {
        if !self.settings.transport.connects() {
            return true;
        }
        let begin = now();
        if !self.channel.connect(
            self.settings.to,
            begin.saturating_add(nanos(self.settings.connect_timeout)),
            self.stop,
        ) {
            return false;
        }
        self.report.connect = Some(std::time::Duration::from_nanos(now() - begin));
        // The first bytes of a connection always fit.
        match self.message.hello() {
            Some(hello) => self.channel.send(&hello, now(), self.stop) == Outcome::Sent,
            None => true,
        }
    }

    /// Sends messages from now to the end of the window.
    fn window(&mut self) {
        let start = now();
        let window = Window { start, end: start.saturating_add(nanos(self.settings.duration)) };
        let interval = nanos(self.settings.interval);
        self.exchange.open(window);
        self.report.window = Some(window);
        self.reserve();

        // Every scheduled datagram is sent, late ones too: otherwise a rerun could have fewer.
        let all = self.settings.pacing == Pacing::Schedule && self.settings.transport == Transport::Udp;
        let mut intended = start;
        while !self.stop.is_set() {
            let at = now();
            if at < intended.min(window.end) {
                self.channel.sleep(intended.min(window.end), self.stop);
                continue;
            }
            if (if all { intended } else { at }) >= window.end {
                break;
            }
            match self.send(intended, at, window.end) {
                Outcome::Sent | Outcome::Refused => {}
                Outcome::Late { handed_over } => {
                    self.report.partial_bytes = handed_over;
                    break;
                }
                Outcome::Broken => break,
            }
            intended = match self.settings.pacing {
                Pacing::Sleep => now().saturating_add(interval),
                Pacing::Schedule => intended.saturating_add(interval),
            };
        }
        self.report.used = std::time::Duration::from_nanos(now().min(window.end) - start);
        self.report.blocked = self.channel.blocked();
        self.report.tcp_at_end = self.channel.tcp_info();
    }

    fn send(&mut self, intended: Nanos, at: Nanos, end: Nanos) -> Outcome {
        self.message.stamp(self.report.sent, intended, at);
        let outcome = self.channel.send(self.message.bytes(), end, self.stop);
        if outcome == Outcome::Sent {
            let report = &mut self.report;
            report.lateness.record(at - intended);
            report.first_send.get_or_insert(at);
            report.last_send = Some(at);
            if report.send_times.len() < report.send_times.capacity() {
                report.send_times.push(at);
            }
            report.sent += 1;
            report.sent_bytes += self.message.bytes().len() as u64;
            self.exchange.set_sent(report.sent);
        }
        outcome
    }

    /// Announces the end if asked to, and waits until the peer has taken everything.
    fn finish(&mut self) {
        let deadline = now().saturating_add(nanos(self.settings.drain));
        if self.settings.announce && self.report.partial_bytes == 0 {
            let end = self.message.end(self.report.sent);
            self.channel.announce(&end, deadline, self.stop);
        }
        self.channel.drain(self.exchange, deadline, self.stop);
        self.report.tcp_after_drain = self.channel.tcp_info();
        self.report.lost_packets = self.channel.lost_packets();
    }

    /// Makes room for the send times, so that none is allocated while sending.
    fn reserve(&mut self) {
        if self.settings.keep_send_times {
            let expected = nanos(self.settings.duration) / nanos(self.settings.interval).max(1) + 2;
            self.report.send_times.reserve_exact(expected.min(SenderSettings::MAX_SEND_TIMES as u64) as usize);
        }
    }
}

/// The bytes of a message, stamped anew for each.
struct Message {
    probe: Probe,
    bytes: Vec<u8>,
}

impl Message {
    fn new(settings: &SenderSettings) -> Self {
        let length = settings.payload_bytes.max(BASE_LEN);
        let extension = Extension {
            intended: 0,
            boot: clock::boot_id().unwrap_or(0),
            length: length.try_into().unwrap_or(u32::MAX),
        };
        let probe = Probe {
            kind: Kind::Message,
            session: settings.session,
            sequence: 0,
            sent: 0,
            extension: (length >= EXTENDED_LEN).then_some(extension),
        };
        Self { probe, bytes: vec![0; length] }
    }

    fn stamp(&mut self, number: u64, intended: Nanos, sent: Nanos) {
        self.probe.sequence = number as u32;
        self.probe.sent = sent;
        if let Some(extension) = &mut self.probe.extension {
            extension.intended = intended;
        }
        // There is room for the header by construction.
        let _ = self.probe.write(&mut self.bytes);
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What precedes messages on a stream that cannot say their own length.
    fn hello(&self) -> Option<[u8; EXTENDED_LEN]> {
        self.probe.extension.is_none().then(|| self.control(Kind::Hello, 0, self.bytes.len()))
    }

    /// What follows the last message.
    fn end(&self, sent: u64) -> [u8; EXTENDED_LEN] {
        self.control(Kind::End, sent, EXTENDED_LEN)
    }

    fn control(&self, kind: Kind, number: u64, length: usize) -> [u8; EXTENDED_LEN] {
        let at = now();
        let extension = Extension { intended: at, boot: clock::boot_id().unwrap_or(0), length: length as u32 };
        let probe = Probe { kind, sequence: number as u32, sent: at, extension: Some(extension), ..self.probe };
        let mut bytes = [0; EXTENDED_LEN];
        let _ = probe.write(&mut bytes);
        bytes
    }
}

/// Lets the receiver end whatever happens to the sender.
struct CloseOnDrop<'a>(&'a Exchange);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close(self.0.sent(), now());
    }
}
