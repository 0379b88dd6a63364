//! When a receiver has received enough.

use std::os::fd::{AsFd, BorrowedFd};

use weir_program::clock::{Nanos, nanos};
use weir_program::stop::Stop;

use super::sessions::Sessions;
use crate::{Ended, Exchange, Until};

/// The events that end a receiver.
pub(crate) struct Ending<'a> {
    until: &'a Until,
    exchange: &'a Exchange,
    stop: &'a Stop,
    started: Nanos,
    deadline: Option<Nanos>,
    /// Whether the last look found sending not ended.
    awaits_exchange: bool,
    /// When everything sent had arrived.
    complete_since: Option<Nanos>,
    /// Of one that has heard a stop: when it ends, whatever is under way.
    last: Option<Nanos>,
}

impl<'a> Ending<'a> {
    pub(crate) fn new(until: &'a Until, exchange: &'a Exchange, stop: &'a Stop, started: Nanos) -> Self {
        let deadline = until.duration.map(|duration| started.saturating_add(nanos(duration)));
        Self { until, exchange, stop, started, deadline, awaits_exchange: true, complete_since: None, last: None }
    }

    /// Whether to end now, and otherwise when to ask again at the latest, if nothing happens before.
    pub(crate) fn check(&mut self, sessions: &mut Sessions<'_>, at: Nanos) -> Result<Option<Nanos>, Ended> {
        let closed = self.exchange.ending();
        self.awaits_exchange = closed.is_none();
        let settled = closed.and_then(|closed| self.settled(closed.sent, sessions, at));
        if self.stop.is_set() {
            return self.stopped(settled, sessions, at);
        }
        let mut next = self.deadline;
        if let Some(closed) = closed {
            next = earlier(next, closed.drained);
        }
        if let Some(settled) = settled {
            if at >= settled {
                return Err(Ended::Complete);
            }
            next = earlier(next, settled);
        }
        if next.is_some_and(|next| at >= next) {
            return Err(Ended::Deadline);
        }
        if let Some((end, ended)) = self.silence(sessions, at) {
            if at >= end {
                return Err(ended);
            }
            next = earlier(next, end);
        }
        if let Some(end) = sessions.tick(at) {
            next = earlier(next, end);
        }
        Ok(next)
    }

    /// When copies of what was sent are no longer waited for; `None`: not all of it has arrived.
    fn settled(&mut self, sent: u64, sessions: &Sessions<'_>, at: Nanos) -> Option<Nanos> {
        let complete = sessions.delivered() >= sent;
        complete.then(|| self.complete_since.get_or_insert(at).saturating_add(nanos(self.until.settle)))
    }

    /// Whether to end now that there was a stop: what was sent before is taken, so that the account closes.
    fn stopped(&mut self, settled: Option<Nanos>, sessions: &Sessions<'_>, at: Nanos) -> Result<Option<Nanos>, Ended> {
        let Some(last) = self.last else {
            self.last = Some(at.saturating_add(nanos(self.until.under_way)));
            // What has come by now is taken in any case.
            return Ok(Some(at));
        };
        // A sender that is here closes the exchange, now that it has to stop; of one elsewhere its announcement tells.
        let nobody_sends = self.awaits_exchange && self.exchange.window().is_none() && sessions.all_announced();
        let end = if nobody_sends { at } else { settled.map_or(last, |settled| settled.min(last)) };
        if at >= end { Err(Ended::Stopped) } else { Ok(Some(end)) }
    }

    /// Whether what waits in the socket may still be taken.
    pub(super) fn has_time(&self, at: Nanos) -> bool {
        self.last.is_none_or(|last| at < last)
    }

    /// When it will have ended if nothing comes any more, and how.
    fn silence(&self, sessions: &mut Sessions<'_>, at: Nanos) -> Option<(Nanos, Ended)> {
        let idle = self.until.idle.map(nanos);
        let heard = sessions.last_arrival().or(self.until.idle_from_start.then_some(self.started));
        let silent = idle.zip(heard).map(|(idle, heard)| heard.saturating_add(idle));
        let all_known = self.until.announced && sessions.seen() >= self.until.senders;
        let announced = if all_known { sessions.end(GRACE, idle, at) } else { None };
        // Where all have told their end, silence that is over before their time to become complete leaves nothing open.
        let is_complete = all_known && sessions.seen() > 0 && sessions.all_announced();
        let ended = if is_complete { Ended::Complete } else { Ended::Idle };
        silent.into_iter().chain(announced).min().map(|end| (end, ended))
    }

    /// TCP: the end that it means if all connections are closed; `None`: others may come. Without a sender in this
    /// process they may: anybody can connect and go.
    pub(super) fn without_connections(&self) -> Option<Ended> {
        if self.last.is_some() {
            return Some(Ended::Stopped);
        }
        if self.complete_since.is_some() {
            return Some(Ended::Complete);
        }
        (!self.awaits_exchange()).then_some(Ended::Closed)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_set()
    }

    /// Whether a stop is to be waited for: once heard it stays readable.
    pub(crate) fn awaits_stop(&self) -> bool {
        self.last.is_none()
    }

    pub(crate) fn stop_fd(&self) -> BorrowedFd<'_> {
        self.stop.as_fd()
    }

    /// Readable once sending has ended, and from then on: see [`Self::awaits_exchange`].
    pub(super) fn exchange_fd(&self) -> BorrowedFd<'_> {
        self.exchange.as_fd()
    }

    /// Whether sending had not ended when [`Self::check`] looked, so that its end is to be waited for. It may have ended
    /// since: then the exchange is readable, and nobody waits in vain.
    pub(super) fn awaits_exchange(&self) -> bool {
        self.awaits_exchange
    }
}

/// How long messages may lag behind the announcement of the end.
pub(super) const GRACE: Nanos = 1_000_000_000;

fn earlier(a: Option<Nanos>, b: Nanos) -> Option<Nanos> {
    Some(a.map_or(b, |a| a.min(b)))
}

#[cfg(test)]
mod tests {
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
        assert_eq!(ending.check(&mut sessions, 1), Ok(None));
        // Whoever waits now without end must watch the exchange, which is readable.
        exchange.close(7, 2);
        assert!(ending.awaits_exchange());
        assert_eq!(ending.check(&mut sessions, 3), Err(Ended::Deadline));
        assert!(!ending.awaits_exchange());
    }

    /// An idle time that is shorter than the time that late messages have.
    #[test]
    fn silence_behind_the_announced_ends_of_all_is_a_good_end() {
        let (exchange, stop) = (Exchange::new(Duration::ZERO).unwrap(), Stop::new().unwrap());
        let peer = "127.0.0.1:5000".parse().unwrap();
        for (senders, expected) in [(1, Ended::Complete), (2, Ended::Idle)] {
            let until = Until { announced: true, senders, idle: Some(Duration::from_nanos(100)), ..Until::default() };
            let settings = ReceiverSettings { until, ..ReceiverSettings::new("127.0.0.1:0".parse().unwrap()) };
            let mut sessions = Sessions::new(&settings, &exchange);
            // One of two is missing.
            for (kind, sequence, sent) in [(Kind::Message, 0, 1), (Kind::End, 2, 2)] {
                let extension = Some(Extension { intended: sent, clock: 1, incarnation: 1, length: 40 });
                sessions.count(&Probe { kind, session: 7, sequence, sent, extension }, 40, peer, sent);
            }
            let mut ending = Ending::new(&settings.until, &exchange, &stop, 0);
            assert_eq!(ending.check(&mut sessions, 101), Ok(Some(102)));
            assert_eq!(ending.check(&mut sessions, 102), Err(expected));
        }
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
        assert_eq!(ending.check(&mut sessions, 5), Ok(Some(5)));
        assert_eq!(ending.check(&mut sessions, 5), Err(Ended::Stopped));
        exchange.open(crate::Window { start: 1, end: 50 });
        let mut ending = Ending::new(&until, &exchange, &stop, 0);
        assert!(ending.awaits_stop());
        assert_eq!(ending.check(&mut sessions, 5), Ok(Some(5)));
        assert_eq!(ending.check(&mut sessions, 6), Ok(Some(105)));
        assert!(!ending.awaits_stop() && ending.awaits_exchange() && ending.has_time(104));
        exchange.close(1, 6);
        assert_eq!(ending.check(&mut sessions, 104), Ok(Some(105)));
        assert_eq!(ending.check(&mut sessions, 105), Err(Ended::Stopped));
        assert!(!ending.has_time(105));
    }
}
