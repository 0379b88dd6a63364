//! When a receiver ends.

use std::os::fd::{AsFd, BorrowedFd};

use nix::poll::{PollFd, PollFlags};
use weir_program::clock::{Nanos, nanos};
use weir_program::stop::Stop;

use super::sessions::Sessions;
use crate::reverse::{LOOK, OtherWay};
use crate::{Ended, Exchange, Until};

/// The events that end a receiver.
pub(crate) struct Ending<'a> {
    until: &'a Until,
    exchange: &'a Exchange,
    stop: &'a Stop,
    started: Nanos,
    deadline: Option<Nanos>,
    /// Whether sending had not ended at the last check.
    awaits_exchange: bool,
    /// When everything sent had arrived.
    complete_since: Option<Nanos>,
    /// After a stop: when it ends, whatever is in flight.
    last: Option<Nanos>,
}

impl<'a> Ending<'a> {
    pub(crate) fn new(until: &'a Until, exchange: &'a Exchange, stop: &'a Stop, started: Nanos) -> Self {
        let deadline = until.duration.map(|duration| started.saturating_add(nanos(duration)));
        Self { until, exchange, stop, started, deadline, awaits_exchange: true, complete_since: None, last: None }
    }

    /// Whether to end now, and otherwise when to check again at the latest, if nothing happens before. `hung_up`: all
    /// connections that brought messages are closed.
    ///
    /// | event | ends |
    /// |---|---|
    /// | everything that a sender of this process sent has come | [`Until::settle`] later |
    /// | its drain, or the duration, is over | at once |
    /// | it has ended, and all connections are closed | at once |
    /// | every known session announced its end, or its connection was closed | 1 s after the last message |
    /// | nothing came for the idle time | at once |
    /// | a stop | when what is under way has come |
    pub(crate) fn check(
        &mut self,
        sessions: &mut Sessions<'_>,
        hung_up: bool,
        at: Nanos,
    ) -> Result<Option<Nanos>, Ended> {
        let closed = self.exchange.ending();
        self.awaits_exchange = closed.is_none();
        if closed.is_some_and(|closed| sessions.delivered() >= closed.sent) {
            self.complete_since.get_or_insert(at);
        }
        let settled = self.complete_since.map(|since| since.saturating_add(nanos(self.until.settle)));
        if self.stop.is_set() {
            return self.stopped(settled, sessions, hung_up, at);
        }
        let over = sessions.over_since(self.until.senders, hung_up).filter(|_| self.until.announced);
        let good = if sessions.all_announced() { Ended::Complete } else { Ended::Closed };
        let heard = sessions.last_arrival().or(self.until.idle_from_start.then_some(self.started));
        let ends = [
            (settled, Ended::Complete),
            (closed.map(|closed| closed.drained), Ended::Deadline),
            (self.deadline, Ended::Deadline),
            (closed.filter(|_| hung_up).map(|_| at), settled.map_or(Ended::Closed, |_| Ended::Complete)),
            (over.map(|since| since.saturating_add(GRACE)), good),
            (
                self.until.idle.zip(heard).map(|(idle, heard)| heard.saturating_add(nanos(idle))),
                over.map_or(Ended::Idle, |_| good),
            ),
        ];
        // Reverse flows defer all ends but that of the duration. They begin, end and are refused on other threads.
        let ends = if sessions.other_way().is_some_and(OtherWay::is_open) { &ends[2..3] } else { &ends[..] };
        let look = sessions.other_way().map(|_| at.saturating_add(nanos(LOOK)));
        if let Some((_, ended)) = ends.iter().find(|(end, _)| end.is_some_and(|end| at >= end)) {
            return Err(*ended);
        }
        Ok(ends.iter().filter_map(|(end, _)| *end).chain(sessions.tick(at)).chain(look).min())
    }

    /// Whether to end after a stop: messages sent before are received, so that the ledger closes.
    fn stopped(
        &mut self,
        settled: Option<Nanos>,
        sessions: &Sessions<'_>,
        hung_up: bool,
        at: Nanos,
    ) -> Result<Option<Nanos>, Ended> {
        let Some(last) = self.last else {
            self.last = Some(at.saturating_add(nanos(self.until.under_way)));
            // Messages that have arrived are received in any case.
            return Ok(Some(at));
        };
        // A sender in this process closes the exchange because of the stop; one elsewhere sends its announcement.
        let nobody_sends = self.awaits_exchange && self.exchange.window().is_none() && sessions.all_announced();
        let end = if nobody_sends || hung_up { at } else { settled.map_or(last, |settled| settled.min(last)) };
        if at >= end { Err(Ended::Stopped) } else { Ok(Some(end)) }
    }

    /// Whether messages in the socket may still be received.
    pub(super) fn has_time(&self, at: Nanos) -> bool {
        self.last.is_none_or(|last| at < last)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_set()
    }

    /// Events to wait for besides messages: a stop until it was seen, and the end of sending unless [`Self::check`] saw
    /// it. Both stay readable.
    pub(super) fn wakes(&self) -> [PollFd<'_>; 2] {
        let wakes = [(self.stop_fd(), self.last.is_none()), (self.exchange_fd(), self.awaits_exchange)];
        wakes.map(|(fd, is_awaited)| PollFd::new(fd, if is_awaited { PollFlags::POLLIN } else { PollFlags::empty() }))
    }

    pub(crate) fn stop_fd(&self) -> BorrowedFd<'_> {
        self.stop.as_fd()
    }

    /// Readable once sending has ended, and from then on: see [`Self::awaits_exchange`].
    pub(super) fn exchange_fd(&self) -> BorrowedFd<'_> {
        self.exchange.as_fd()
    }

    /// Whether sending had not ended at the last [`Self::check`], so that its end must be waited for. It may have ended
    /// since: then the exchange is readable, and the wait ends at once.
    pub(super) fn awaits_exchange(&self) -> bool {
        self.awaits_exchange
    }
}

/// Time for messages to arrive after the announcement of the end: a second is many round trips.
pub(crate) const GRACE: Nanos = 1_000_000_000;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use weir_wire::probe::{Extension, Kind, Probe};

    use super::*;
    use crate::ReceiverSettings;

    #[test]
    fn an_end_between_look_and_wait_is_waited_for() {
        let settings = ReceiverSettings::new("127.0.0.1:0".parse().unwrap());
        let (exchange, stop) = (Exchange::new(Duration::ZERO).unwrap(), Stop::new().unwrap());
        let mut sessions = Sessions::new(&settings, &exchange);
        let mut ending = Ending::new(&settings.until, &exchange, &stop, 0);
        assert_eq!(ending.check(&mut sessions, false, 1), Ok(None));
        // Whoever waits now without end must watch the exchange, which is readable.
        exchange.close(7, 2);
        assert!(ending.awaits_exchange());
        assert_eq!(ending.check(&mut sessions, false, 3), Err(Ended::Deadline));
        assert!(!ending.awaits_exchange());
    }

    #[test]
    fn announced_ends_silence_and_closed_connections_end_it_as_the_table_says() {
        let (exchange, stop) = (Exchange::new(Duration::ZERO).unwrap(), Stop::new().unwrap());
        let peer = "127.0.0.1:5000".parse().unwrap();
        let (message, end, ns) = (Kind::Message, Kind::End, Duration::from_nanos);
        // Senders waited for, idle time, what came and when, whether connections are closed; when it ends, and how.
        for (senders, idle, came, hung_up, at, ended) in [
            (1, GRACE * 10, &[(message, 0, 1), (end, 1, 2)][..], false, 2 + GRACE, Ended::Complete),
            (1, GRACE * 10, &[(message, 0, 1), (end, 2, 2)], false, 2 + GRACE, Ended::Complete),
            (1, GRACE * 10, &[(message, 0, 1), (end, 2, 2), (message, 1, 9)], false, 9 + GRACE, Ended::Complete),
            // An idle time that is shorter than the time that late messages have.
            (1, 100, &[(message, 0, 1), (end, 2, 2)], false, 102, Ended::Complete),
            (2, 100, &[(message, 0, 1), (end, 2, 2)], false, 102, Ended::Idle),
            (1, 100, &[(message, 0, 1)], false, 101, Ended::Idle),
            // An end alone is no session, and starts no idle time.
            (1, 100, &[(end, 5, 2)], false, Nanos::MAX, Ended::Complete),
            (1, GRACE * 10, &[(message, 0, 1)], true, 1 + GRACE, Ended::Closed),
            (1, GRACE * 10, &[(message, 0, 1), (end, 1, 2)], true, 2 + GRACE, Ended::Complete),
        ] {
            let until = Until { announced: true, senders, idle: Some(ns(idle)), ..Until::default() };
            let settings = ReceiverSettings { until, ..ReceiverSettings::new("127.0.0.1:0".parse().unwrap()) };
            let mut sessions = Sessions::new(&settings, &exchange);
            for &(kind, sequence, at) in came {
                let extension = Some(Extension { intended: 1, clock: 1, incarnation: 1, length: 40 });
                sessions.count(&Probe { kind, session: 7, sequence, sent: 1, extension }, 40, peer, at);
            }
            let mut ending = Ending::new(&settings.until, &exchange, &stop, 0);
            let expected = (at, Some(at).filter(|&at| at < Nanos::MAX));
            assert_eq!(ending.check(&mut sessions, hung_up, at - 1), Ok(expected.1), "{came:?}");
            if expected.1.is_some() {
                assert_eq!(ending.check(&mut sessions, hung_up, at), Err(ended), "{came:?}");
            }
        }
    }

    /// Another thread refuses it, and wakes nobody.
    #[test]
    fn a_request_that_was_refused_starts_the_idle_time() {
        let until = Until { idle: Some(Duration::from_nanos(100)), ..Until::default() };
        let settings = ReceiverSettings { until, ..ReceiverSettings::new("127.0.0.1:0".parse().unwrap()) };
        let (exchange, stop) = (Exchange::new(Duration::MAX).unwrap(), Stop::new().unwrap());
        let other = Arc::new(OtherWay::default());
        let mut sessions = Sessions::new(&settings, &exchange).beside(Arc::clone(&other));
        let mut ending = Ending::new(&settings.until, &exchange, &stop, 0);
        assert_eq!(ending.check(&mut sessions, false, 1), Ok(Some(1 + nanos(LOOK))), "it looks again");
        other.touch(50);
        assert!(ending.check(&mut sessions, false, 149).is_ok());
        assert_eq!(ending.check(&mut sessions, false, 150), Err(Ended::Idle));
    }

    #[test]
    fn a_stop_waits_for_what_was_sent_and_not_for_long() {
        let settings = ReceiverSettings::new("127.0.0.1:0".parse().unwrap());
        let until = Until { under_way: Duration::from_nanos(100), ..Until::default() };
        let (exchange, stop) = (Exchange::new(Duration::MAX).unwrap(), Stop::new().unwrap());
        let mut sessions = Sessions::new(&settings, &exchange);
        stop.set();
        // Nobody sends, and what has come is taken.
        let mut ending = Ending::new(&until, &exchange, &stop, 0);
        assert_eq!(ending.check(&mut sessions, false, 5), Ok(Some(5)));
        assert_eq!(ending.check(&mut sessions, false, 5), Err(Ended::Stopped));
        exchange.open(crate::Window { start: 1, end: 50 });
        let mut ending = Ending::new(&until, &exchange, &stop, 0);
        let awaits_stop = |ending: &Ending<'_>| ending.wakes()[0].events() == PollFlags::POLLIN;
        assert!(awaits_stop(&ending));
        assert_eq!(ending.check(&mut sessions, false, 5), Ok(Some(5)));
        assert_eq!(ending.check(&mut sessions, false, 6), Ok(Some(105)));
        assert!(!awaits_stop(&ending) && ending.awaits_exchange() && ending.has_time(104));
        exchange.close(1, 6);
        assert_eq!(ending.check(&mut sessions, false, 104), Ok(Some(105)));
        assert_eq!(ending.check(&mut sessions, false, 105), Err(Ended::Stopped));
        assert!(!ending.has_time(105));
    }
}
