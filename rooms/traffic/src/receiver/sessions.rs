//! The account of each sender and session.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use weir_service::clock::{self, Nanos};
use weir_stats::DelayRecorder;
use weir_wire::probe::{Kind, Probe};

use crate::sequence::Arrival;
use crate::{Exchange, Flight, Flights, Machine, ReceiveReport, ReceiverSettings, SequenceSet, SessionReport, Window};

/// All sessions of a receiver.
pub(crate) struct Sessions<'a> {
    exchange: &'a Exchange,
    only: Option<u16>,
    /// What to cut into batches where no sender of this process tells its window.
    assumed: Duration,
    keep_flights: usize,
    list: Vec<Session>,
    places: HashMap<(SocketAddr, u16), usize>,
    latest: usize,
    foreign: u64,
    unlisted: u64,
    delivered: u64,
    last_arrival: Option<Nanos>,
}

struct Session {
    report: SessionReport,
    window: Option<Window>,
    announced_at: Nanos,
}

impl<'a> Sessions<'a> {
    pub(crate) fn new(settings: &ReceiverSettings, exchange: &'a Exchange) -> Self {
        Self {
            exchange,
            only: settings.session,
            assumed: settings.until.duration.unwrap_or(Duration::from_secs(60)),
            keep_flights: settings.keep_flights,
            list: Vec::new(),
            places: HashMap::new(),
            latest: 0,
            foreign: 0,
            unlisted: 0,
            delivered: 0,
            last_arrival: None,
        }
    }

    /// Counts a message of `length` bytes that was received at the time `at`.
    pub(crate) fn count(&mut self, probe: &Probe, length: usize, peer: SocketAddr, at: Nanos) {
        if self.only.is_some_and(|only| only != probe.session) {
            self.foreign += 1;
            return;
        }
        self.last_arrival = Some(at);
        let Some(place) = self.place(peer, probe.session, at) else {
            self.unlisted += 1;
            return;
        };
        if self.list[place].count(probe, length, at) {
            self.delivered += 1;
            self.exchange.set_delivered(self.delivered);
        }
    }

    /// Counts what is not one of our messages.
    pub(crate) fn count_foreign(&mut self) {
        self.foreign += 1;
    }

    /// Messages of all sessions, without duplicates.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// When the last message came.
    pub(super) fn last_arrival(&self) -> Option<Nanos> {
        self.last_arrival
    }

    /// When there is nothing to wait for any more, from what the senders have announced; `None`: not yet known.
    pub(super) fn announced_end(&self, grace: Nanos) -> Option<Nanos> {
        let end_of = |session: &Session| {
            let announced = session.report.announced?;
            let complete = session.report.delivered >= announced;
            Some(session.announced_at + if complete { 0 } else { grace })
        };
        self.list.iter().try_fold(None, |latest, session| Some(latest.max(Some(end_of(session)?)))).flatten()
    }

    pub(crate) fn into_report(self) -> ReceiveReport {
        ReceiveReport {
            sessions: self.list.into_iter().map(|session| session.report).collect(),
            foreign: self.foreign,
            unlisted: self.unlisted,
            ..ReceiveReport::default()
        }
    }

    /// The session's place in the list; `None`: the list is full.
    fn place(&mut self, peer: SocketAddr, session: u16, at: Nanos) -> Option<usize> {
        let is_it = |s: &Session| s.report.peer == peer && s.report.session == session;
        if self.list.get(self.latest).is_some_and(is_it) {
            return Some(self.latest);
        }
        self.latest = match self.places.get(&(peer, session)) {
            Some(&place) => place,
            None if self.list.len() == MAX_SESSIONS => return None,
            None => {
                let place = self.list.len();
                let flights = Flights::new(self.keep_flights);
                self.list.push(Session::new(peer, session, at, self.exchange.window(), self.assumed, flights));
                self.places.insert((peer, session), place);
                place
            }
        };
        Some(self.latest)
    }
}

impl Session {
    fn new(
        peer: SocketAddr,
        session: u16,
        at: Nanos,
        window: Option<Window>,
        assumed: Duration,
        flights: Flights,
    ) -> Self {
        let length = window.map_or(assumed, |window| Duration::from_nanos(window.end - window.start));
        let report = SessionReport {
            peer,
            session,
            delivered: 0,
            in_window: 0,
            delivered_bytes: 0,
            duplicates: 0,
            reordered: 0,
            stale: 0,
            numbers: SequenceSet::new(),
            announced: None,
            announcements: 0,
            machine: Machine::Unknown,
            first_arrival: at,
            last_arrival: at,
            delays: DelayRecorder::new(length),
            intended_delays: DelayRecorder::new(length),
            flights,
        };
        Self { report, window, announced_at: 0 }
    }

    /// Counts a message; `true` if it is a new one.
    fn count(&mut self, probe: &Probe, length: usize, at: Nanos) -> bool {
        let report = &mut self.report;
        if let Some(extension) = probe.extension {
            report.machine = match clock::boot_id() {
                Some(ours) if extension.boot == ours => Machine::Same,
                Some(_) if extension.boot != 0 => Machine::Other,
                _ => Machine::Unknown,
            };
        }
        let number = report.numbers.expand(probe.sequence);
        match probe.kind {
            Kind::Hello => return false,
            Kind::End => {
                if report.announced.is_none() {
                    self.announced_at = at;
                }
                report.announced = Some(number);
                report.announcements += 1;
                return false;
            }
            Kind::Message => {}
        }
        match report.numbers.insert(number) {
            Arrival::New => {}
            Arrival::Reordered => report.reordered += 1,
            Arrival::Duplicate => {
                report.duplicates += 1;
                return false;
            }
            Arrival::Stale => {
                report.stale += 1;
                return false;
            }
        }
        if report.delivered == 0 {
            report.first_arrival = at;
        }
        report.last_arrival = at;
        report.delivered += 1;
        report.delivered_bytes += length as u64;
        report.in_window += u64::from(self.window.is_none_or(|window| at < window.end));
        if report.machine != Machine::Other {
            let origin = self.window.map_or(report.first_arrival, |window| window.start);
            let since = Duration::from_nanos(at.saturating_sub(origin));
            report.delays.record(since, at.saturating_sub(probe.sent));
            if let Some(extension) = probe.extension {
                report.intended_delays.record(since, at.saturating_sub(extension.intended));
            }
            let intended = probe.extension.map_or(probe.sent, |extension| extension.intended);
            report.flights.keep(Flight { intended, sent: probe.sent, received: at });
        }
        true
    }
}

/// Sessions that are told apart. Each takes up to 0.7 MiB, of which few messages touch little: a flood of invented ones
/// stays harmless.
const MAX_SESSIONS: usize = 256;
