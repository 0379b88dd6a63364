//! The thread of a station: asks sources, steps streams, and waits for whichever is due first.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::poll::{PollFd, PollFlags};
use weir_program::clock::{self, Nanos};
use weir_program::pulse::Pulse;
use weir_service::EventSender;
use weir_units::Frequency;

use super::board::Board;
use super::clock::SampleClock;
use super::config::Channel;
use super::ledger::{Ledger, SourceCount, StreamCount};
use super::sources::{Next, Source};
use super::state::State;

/// What the thread owns.
pub(super) struct Worker {
    pub(super) name: String,
    pub(super) clock: SampleClock,
    pub(super) board: Board,
    pub(super) sources: Vec<Running>,
    /// A sample is sent at most so long after it was taken.
    pub(super) delay: Nanos,
    pub(super) state: Arc<State>,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) orders: Orders,
    pub(super) news: EventSender<News>,
    pub(super) pulse: Pulse,
    pub(super) steps: u64,
    /// When it is said which descriptions fit no channel; `None`: it was.
    pub(super) unfit: Option<Nanos>,
}

/// A source that runs.
pub(super) struct Running {
    pub(super) name: String,
    pub(super) source: Box<dyn Source>,
    pub(super) next: Option<Next>,
    /// How it misses samples.
    pub(super) missing: &'static str,
}

/// What a reload changes.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) channels: Vec<Channel>,
    pub(super) display: Frequency,
}

/// The order that the thread has not taken yet: of several the last one, for each says all.
#[derive(Clone, Debug, Default)]
pub(super) struct Orders(Arc<Mutex<Option<Order>>>);

/// What the thread tells the control thread.
#[derive(Debug)]
pub(super) enum News {
    /// A source has no more.
    Over(String),
    /// A source has failed.
    Failed(String, anyhow::Error),
    /// The day's clock was stepped by so many ns.
    Stepped(i64),
    /// Names that are described, and no channel has.
    Unfit(Vec<String>),
    /// A source has something to say.
    Remark(String),
}

impl Orders {
    /// It is carried out in place of one that still waits.
    pub(super) fn give(&self, order: Order) {
        *self.waiting() = Some(order);
    }

    /// What is to be carried out now.
    pub(super) fn take(&self) -> Option<Order> {
        self.waiting().take()
    }

    fn waiting(&self) -> MutexGuard<'_, Option<Order>> {
        // It is replaced as a whole: it is never half given.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Worker {
    /// Runs until it is stopped.
    pub(super) fn run(mut self) {
        clock::precise_timers();
        let (mut looked, mut told) = (0, 0);
        while !self.stop.load(Ordering::Relaxed) {
            self.pulse.work();
            self.board.now = self.clock.now();
            let now = self.board.now.elapsed;
            if looked == 0 || now >= looked + LOOKS_APART {
                looked = now.max(1);
                self.look();
            }
            self.ask();
            for remark in self.board.remarks.drain(..) {
                self.news.try_tell(News::Remark(remark));
            }
            for stream in &mut self.board.streams {
                stream.outlet.clear_errors();
                stream.step(now, self.delay / 2);
            }
            if told == 0 || now >= told + TELLS_APART {
                told = now.max(1);
                self.state.set(self.count());
            }
            self.wait();
        }
        self.end();
    }

    /// Once a second: what keeps the clock, whether it was stepped, what a reload changes.
    fn look(&mut self) {
        if let Some(step) = self.clock.follow_steps() {
            self.board.shift(step);
            self.board.now = self.clock.now();
            self.steps += 1;
            self.news.try_tell(News::Stepped(step));
        }
        let quality = self.clock.quality();
        self.board.streams.iter_mut().for_each(|stream| stream.header.clock = quality);
        if let Some(Order { channels, display }) = self.orders.take() {
            self.board.describe(&channels, display);
            self.unfit = Some(self.board.now.elapsed + FITS_WITHIN);
        }
        if self.unfit.take_if(|due| self.board.now.elapsed >= *due).is_some() {
            let names = self.board.unfit();
            if !names.is_empty() {
                self.news.try_tell(News::Unfit(names));
            }
        }
    }

    /// Asks each source that may have something.
    fn ask(&mut self) {
        let now = self.board.now.elapsed;
        for running in &mut self.sources {
            let due = match running.next {
                Some(Next::At(at)) => now >= at || running.source.descriptor().is_some(),
                Some(Next::Readable) => true,
                Some(Next::Over) | None => false,
            };
            if !due {
                continue;
            }
            running.next = match running.source.take(&mut self.board) {
                Ok(Next::Over) => {
                    self.news.try_tell(News::Over(running.name.clone()));
                    None
                }
                Ok(next) => Some(next),
                Err(error) => {
                    self.news.try_tell(News::Failed(running.name.clone(), error));
                    None
                }
            };
        }
    }

    /// Until something is due or readable.
    fn wait(&mut self) {
        let now = self.clock.now().elapsed;
        let sources = self.sources.iter().filter_map(|running| match running.next {
            // Several samples are taken at a time, if they come so fast.
            Some(Next::At(at)) => Some(at.max(now + self.grain())),
            Some(Next::Readable | Next::Over) | None => None,
        });
        let due = sources.min().unwrap_or(Nanos::MAX).min(self.board.due_at(self.delay / 2)).min(now + LONGEST_WAIT);
        if due <= now {
            return;
        }
        let descriptors = self.sources.iter().filter(|running| running.next.is_some());
        let descriptors = descriptors.filter_map(|running| running.source.descriptor());
        let mut all: Vec<_> = descriptors.map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN)).collect();
        self.pulse.wait();
        clock::wait(&mut all, Some(clock::now() + (due - now)));
    }

    /// How long samples are let come together: a quarter of the delay, less where datagrams fill faster than that.
    fn grain(&self) -> Nanos {
        let fastest = self.board.streams.iter().map(|stream| stream.per_s).fold(0.0, f64::max);
        // Four datagrams at a time, but not more often than a thousand times a second.
        let fills = (4e9 / fastest.max(1.0)) as Nanos;
        fills.clamp(1_000_000, (self.delay / 4).max(1_000_000))
    }

    /// Sends everything, and that nothing more comes.
    fn end(&mut self) {
        self.board.now = self.clock.now();
        let now = self.board.now.elapsed;
        self.board.streams.iter_mut().for_each(|stream| stream.end(now, std::thread::sleep));
        self.state.set(self.count());
    }

    fn count(&self) -> Ledger {
        let due = self.board.due();
        let source = |(number, running): (usize, &Running)| SourceCount {
            name: running.name.clone(),
            over: running.next.is_none(),
            missed: self.board.missed(number),
            missed_by: running.missing,
            ..running.source.count()
        };
        Ledger {
            elapsed_s: self.board.now.elapsed as f64 / 1e9,
            station: self.name.clone(),
            channels: self.board.len(),
            channels_refused: self.board.refused,
            clock_steps: self.steps,
            streams: self.board.streams.iter().map(|stream| StreamCount::of(stream, &due)).collect(),
            sources: self.sources.iter().enumerate().map(source).collect(),
            ..Ledger::default()
        }
        .close()
    }
}

const LOOKS_APART: Nanos = 1_000_000_000;

/// After a start or a reload sources have shown their channels, if they run.
pub(super) const FITS_WITHIN: Nanos = 10_000_000_000;

const TELLS_APART: Nanos = 100_000_000;

/// A stop is heard within it.
const LONGEST_WAIT: Nanos = 20_000_000;
