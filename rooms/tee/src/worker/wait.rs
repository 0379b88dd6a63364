//! What a worker's thread waits for: datagrams, room in sockets, the time of what waits for company, and commands.

use std::io;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::EventFd;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{Expiration, TimerFd, TimerSetTimeFlags};

use super::carrier::Carrier;
use super::lane::Place;
use super::lend::Held;
use super::replace::Leaving;
use super::thread::{Command, Thread};

/// How the thread learns of things.
pub(super) struct Inputs {
    pub(super) epoll: Epoll,
    pub(super) wake: Arc<EventFd>,
    timer: TimerFd,
    pub(super) commands: mpsc::Receiver<Command>,
}

impl Inputs {
    pub(super) fn new(
        epoll: Epoll,
        wake: Arc<EventFd>,
        timer: TimerFd,
        commands: mpsc::Receiver<Command>,
    ) -> io::Result<Self> {
        epoll.add(&wake, EpollEvent::new(EpollFlags::EPOLLIN, WAKE))?;
        epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, TIMER))?;
        Ok(Self { epoll, wake, timer, commands })
    }

    /// Has epoll tell when a lane's socket takes more, exactly as long as something waits for that. At other times the
    /// kernel shall not tell: every packet that leaves an interface would wake us.
    pub(super) fn watch(&self, carrier: &mut Carrier, token: u64) {
        let wanted = carrier.has_backlog() && carrier.due.is_none();
        if !wanted {
            self.unwatch(carrier);
        } else if !carrier.watched
            && let Some(descriptor) = carrier.descriptor()
        {
            carrier.watched = self.epoll.add(descriptor, EpollEvent::new(EpollFlags::EPOLLOUT, token)).is_ok();
        }
    }

    /// The same for a lane of another worker.
    pub(super) fn watch_held(&self, held: &mut Held) {
        self.watch(&mut held.carrier, HELD + held.number);
    }

    pub(super) fn unwatch(&self, carrier: &mut Carrier) {
        if carrier.watched {
            if let Some(descriptor) = carrier.descriptor() {
                let _ = self.epoll.delete(descriptor);
            }
            carrier.watched = false;
        }
    }
}

impl Thread {
    /// Waits until there is something to do, `until` then at the latest; returns whether commands wait.
    pub(super) fn wait(&mut self, until: Option<Instant>) -> io::Result<bool> {
        let until = self.leaving.iter().map(|leaving| leaving.until).chain(until).min();
        let timeout = if self.intakes.iter().any(|intake| intake.ready) {
            EpollTimeout::ZERO
        } else {
            until.map_or(EpollTimeout::NONE, |until| {
                let left = until.saturating_duration_since(Instant::now());
                // Rounded up: waking early would be waking for nothing.
                EpollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(EpollTimeout::MAX)
            })
        };
        let mut events = [EpollEvent::empty(); 64];
        let timeout = self.doze(timeout);
        let result = self.inputs.epoll.wait(&mut events, timeout);
        self.rise(timeout);
        let count = match result {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(error) => return Err(error.into()),
        };
        let mut commanded = false;
        for event in &events[..count] {
            let broken = event.events().contains(EpollFlags::EPOLLERR);
            match event.data() {
                WAKE => commanded = true,
                TIMER => {
                    let _ = self.inputs.timer.wait();
                    self.release_due();
                }
                token if token < LANE => self.intakes[token as usize].ready = true,
                token => self.resume(token, broken),
            }
        }
        self.dismiss();
        Ok(commanded)
    }

    /// Before a sleep: nobody's command must be slept through.
    fn doze(&mut self, timeout: EpollTimeout) -> EpollTimeout {
        if timeout == EpollTimeout::ZERO {
            return timeout;
        }
        self.desks[self.number].doze();
        self.stash.extend(self.inputs.commands.try_recv());
        if self.stash.is_empty() { timeout } else { EpollTimeout::ZERO }
    }

    fn rise(&mut self, timeout: EpollTimeout) {
        self.desks[self.number].rise();
        if timeout != EpollTimeout::ZERO && self.desks.len() > 1 {
            self.sharing.risen = Instant::now();
        }
    }

    /// The socket of a lane takes more, or has something to tell.
    fn resume(&mut self, token: u64, broken: bool) {
        let carrier = if token >= HELD {
            let held = self.sharing.held.iter_mut().find(|held| HELD + held.number == token);
            held.map(|held| &mut *held.carrier)
        } else if token >= LEAVING {
            let leaving = self.leaving.iter_mut().find(|leaving| LEAVING + leaving.number == token);
            leaving.map(|leaving| &mut *leaving.carrier)
        } else {
            self.lanes[(token - LANE) as usize].carrier()
        };
        let Some(carrier) = carrier else { return };
        let phase = self.plan.books.phase(self.number);
        phase.begin();
        if broken {
            carrier.hear(0);
        }
        carrier.drain(&mut self.tools);
        phase.end();
        self.inputs.watch(carrier, token);
    }

    /// Sends what has waited for company long enough.
    fn release_due(&mut self) {
        let now = Instant::now();
        self.plan.books.phase(self.number).begin();
        for at in std::mem::take(&mut self.gathering) {
            let Some(carrier) = self.lanes[at].carrier() else { continue };
            match carrier.due {
                Some(due) if due > now => self.gathering.push(at),
                Some(_) => carrier.drain(&mut self.tools),
                None => {}
            }
        }
        self.plan.books.phase(self.number).end();
        self.set_timer(now);
        self.watch_all();
    }

    /// Has the timer wake us for the lane that is due first.
    pub(super) fn set_timer(&self, now: Instant) {
        let due = |&at: &usize| match &self.lanes[at].place {
            Place::Here(carrier) => carrier.due,
            Place::Lent(_) => None,
        };
        let first = self.gathering.iter().filter_map(due).min();
        if let Some(first) = first {
            // Zero would stop the timer.
            let left = first.saturating_duration_since(now).max(Duration::from_nanos(1));
            let expiration = Expiration::OneShot(TimeSpec::from_duration(left));
            let _ = self.inputs.timer.set(expiration, TimerSetTimeFlags::empty());
        }
    }

    /// Watches a lane, or no longer.
    pub(super) fn watch(&mut self, at: usize) {
        if let Some(carrier) = self.lanes[at].carrier() {
            self.inputs.watch(carrier, LANE + at as u64);
        }
    }

    /// Stops watching a lane: who stands for it is about to change.
    pub(super) fn unwatch(&mut self, at: usize) {
        if let Some(carrier) = self.lanes[at].carrier() {
            self.inputs.unwatch(carrier);
        }
    }

    pub(super) fn watch_all(&mut self) {
        for at in 0..self.lanes.len() {
            self.watch(at);
        }
        for Leaving { carrier, number, .. } in &mut self.leaving {
            self.inputs.watch(carrier, LEAVING + *number);
        }
    }
}

/// Tokens of events: listeners come first.
const LANE: u64 = 1 << 32;
pub(super) const LEAVING: u64 = 1 << 48;
const HELD: u64 = 1 << 56;
const TIMER: u64 = u64::MAX - 1;
const WAKE: u64 = u64::MAX;
