//! When a receiver has received enough.

use std::os::fd::{AsFd, BorrowedFd};

use weir_service::clock::{Nanos, nanos};
use weir_service::stop::Stop;

use super::sessions::Sessions;
use crate::{Ended, Exchange, Until};

/// The events that end a receiver.
pub(super) struct Ending<'a> {
    until: &'a Until,
    exchange: &'a Exchange,
    stop: &'a Stop,
    deadline: Option<Nanos>,
    /// Whether the last look found sending not ended.
    awaits_exchange: bool,
    /// When everything sent had arrived.
    complete_since: Option<Nanos>,
}

impl<'a> Ending<'a> {
    pub(super) fn new(until: &'a Until, exchange: &'a Exchange, stop: &'a Stop, started: Nanos) -> Self {
        let deadline = until.duration.map(|duration| started.saturating_add(nanos(duration)));
        Self { until, exchange, stop, deadline, awaits_exchange: true, complete_since: None }
    }

    /// Whether to end now, and otherwise when to ask again at the latest, if nothing happens before.
    pub(super) fn check(&mut self, sessions: &Sessions<'_>, at: Nanos) -> Result<Option<Nanos>, Ended> {
        if self.stop.is_set() {
            return Err(Ended::Stopped);
        }
        let mut next = self.deadline;
        let closed = self.exchange.ending();
        self.awaits_exchange = closed.is_none();
        if let Some(closed) = closed {
            next = earlier(next, closed.drained);
            if sessions.delivered() >= closed.sent {
                let since = *self.complete_since.get_or_insert(at);
                let settled = since.saturating_add(nanos(self.until.settle));
                if at >= settled {
                    return Err(Ended::Complete);
                }
                next = earlier(next, settled);
            }
        }
        if let (Some(idle), Some(last)) = (self.until.idle, sessions.last_arrival()) {
            next = earlier(next, last.saturating_add(nanos(idle)));
        }
        if self.until.announced
            && let Some(end) = sessions.announced_end(GRACE)
        {
            if at >= end {
                return Err(Ended::Complete);
            }
            next = earlier(next, end);
        }
        if next.is_some_and(|next| at >= next) { Err(Ended::Deadline) } else { Ok(next) }
    }

    /// TCP: the end that it means if all connections are closed; `None`: others may come.
    pub(super) fn without_connections(&self) -> Option<Ended> {
        if self.complete_since.is_some() {
            return Some(Ended::Complete);
        }
        (self.until.announced || !self.awaits_exchange()).then_some(Ended::Closed)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_set()
    }

    pub(super) fn stop_fd(&self) -> BorrowedFd<'_> {
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
const GRACE: Nanos = 1_000_000_000;

fn earlier(a: Option<Nanos>, b: Nanos) -> Option<Nanos> {
    Some(a.map_or(b, |a| a.min(b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReceiverSettings;

    #[test]
    fn an_end_between_look_and_wait_is_waited_for() {
        let settings = ReceiverSettings::new("127.0.0.1:0".parse().unwrap());
        let (exchange, stop) = (Exchange::new(std::time::Duration::ZERO).unwrap(), Stop::new().unwrap());
        let sessions = Sessions::new(&settings, &exchange);
        let mut ending = Ending::new(&settings.until, &exchange, &stop, 0);
        assert_eq!(ending.check(&sessions, 1), Ok(None));
        // Whoever waits now without end must watch the exchange, which is readable.
        exchange.close(7, 2);
        assert!(ending.awaits_exchange());
        assert_eq!(ending.check(&sessions, 3), Err(Ended::Deadline));
        assert!(!ending.awaits_exchange());
    }
}
