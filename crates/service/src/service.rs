//! A running service: its control thread, and the threads that every service has.

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::admin::{Admin, Probes};
use crate::events::{Event, EventSender, hear_signals};
use crate::links;
use crate::log::{self, Log};
use crate::notify::{self, Watchdog};
use crate::reloads::Reloads;
use crate::room::{Observable, Room};
use crate::screen::Ended;
use crate::setup::{Fixed, Launch};
use weir_program::links::Links;
use weir_program::output;
use weir_program::pulse::{Pulse, Pulses};
use weir_program::stop::Stop;

/// A service whose room is being started: signals are heard, the log is written.
pub struct Service<R: Room> {
    launch: Launch,
    admin: Option<Admin>,
    pulses: Pulses,
    reloads: Reloads,
    events: SyncSender<Event<R::News>>,
    queue: Receiver<Event<R::News>>,
    stop: Stop,
    show: Option<Show>,
    /// The last to end.
    log: Log,
}

type Show = Box<dyn FnOnce(&Stop) -> Result<Ended> + Send>;

impl<R: Room> Service<R> {
    pub(crate) fn start(launch: Launch, admin: Option<Admin>) -> Result<Self> {
        let (events, queue) = sync_channel(QUEUE);
        let stop = Stop::new().context("make a stop")?;
        hear_signals(events.clone(), &stop, launch.file.is_some()).context("watch for signals")?;
        let log = log::start(launch.verbosity).context("start the log")?;
        let (pulses, reloads) = (Pulses::new(), Reloads::new());
        Ok(Self { launch, admin, pulses, reloads, events, queue, stop, show: None, log })
    }

    /// The pulse of a thread that is watched; see [`Pulses::pulse`].
    pub fn pulse(&self, thread: impl Into<String>) -> Pulse {
        self.pulses.pulse(thread)
    }

    /// Where threads of the room tell [`Room::hear`] something.
    pub fn events(&self) -> EventSender<R::News> {
        EventSender(self.events.clone())
    }

    /// What shows the room to whoever started it, on a thread of its own named `screen`, until the stop is set. The service
    /// ends where somebody asks for the end there, or when it fails.
    pub fn show(&mut self, show: impl FnOnce(&Stop) -> Result<Ended> + Send + 'static) {
        self.show = Some(Box::new(show));
    }

    /// Starts what is left (admin, watchdog, screen), says that the service is ready, and drives the room until a signal,
    /// a person or the room itself ends it. When this returns the room has ended, and all threads started here but that of
    /// signals; what was logged is written.
    ///
    /// # Errors
    /// A thread cannot be started, or what shows the room has failed.
    pub fn run(mut self, room: &mut R) -> Result<()> {
        let control = self.pulse("control");
        let reloads = self.launch.file.is_some().then(|| self.reloads.clone());
        let probes = Arc::new(Probes::new(room.state(), self.pulses.clone(), reloads));
        let admin = self.admin.take().map(|admin| admin.serve(probes.clone())).transpose()?;
        // Without it everything works but what an interface takes along.
        let links = Links::follow(links::log).inspect_err(|error| tracing::warn!("{error:#}")).ok();
        let watchdog = Watchdog::start(self.pulses.clone()).context("start the watchdog")?;
        let show = self.show.take();
        let is_shown = show.is_some();
        let shown = show.map(|show| Shown::start(show, self.events.clone())).transpose().context("start the screen")?;
        let first_look = room.begin();
        self.stop.set_grace(room.grace());
        if let Some(admin) = &admin {
            tracing::info!("admin: http://{}/", admin.local_addr());
        }
        tell(is_shown, format_args!("ready: {}", room.status()));
        notify::ready(&room.status());

        let asked = self.drive(room, &control, first_look);

        probes.stopping();
        notify::stopping(R::ENDING);
        tell(is_shown, format_args!("stopping: {}", R::ENDING));
        room.end();
        let shown = shown.map_or(Ok(()), |shown| shown.end(&self.queue, asked));
        drop((links, watchdog, admin, self.log));
        shown
    }

    /// Until the end is asked for, or the room ends by itself; whether it was asked for.
    fn drive(&mut self, room: &mut R, pulse: &Pulse, mut due: Instant) -> bool {
        loop {
            pulse.wait();
            // What was told before it is heard first.
            let left = if self.stop.is_set() { Duration::ZERO } else { due.saturating_duration_since(Instant::now()) };
            let event = self.queue.recv_timeout(left);
            pulse.work();
            match event {
                Err(RecvTimeoutError::Timeout) if self.stop.is_set() => return true,
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return true,
                Ok(Event::Reload) => {
                    self.reload(room);
                    self.stop.set_grace(room.grace());
                }
                Ok(Event::Account) => print_ledger(&*room.state()),
                Ok(Event::News(news)) => room.hear(news),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if Instant::now() >= due {
                let Some(next) = room.look() else { return false };
                due = next;
            }
        }
    }

    fn reload(&self, room: &mut R) {
        let Some(file) = &self.launch.file else { return };
        notify::reloading();
        links::look(true);
        let outcome = room.reload();
        // Whoever reads the line finds it counted.
        self.reloads.count(outcome.is_ok());
        match &outcome {
            Ok(wanted) => {
                self.launch.fixed.stays(wanted);
                tracing::info!("reloaded {}: {}", file.display(), room.status());
            }
            Err(error) => tracing::error!("reload of {}: {error:#} (nothing has changed)", file.display()),
        }
        notify::ready(&room.status());
    }
}

impl<R: Room> fmt::Debug for Service<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Service").field("launch", &self.launch).finish_non_exhaustive()
    }
}

impl Fixed {
    /// Says where a file wants what only a start can change.
    fn stays(&self, wanted: &Self) {
        stays("admin", &shown(self.admin.as_ref()), &shown(wanted.admin.as_ref()));
        stays("user", &shown(self.user.as_ref()), &shown(wanted.user.as_ref()));
    }
}

/// Says, on a reload, that a key stays what it is where the file wants something else.
pub fn stays<T: PartialEq + fmt::Display>(key: &str, is: &T, wanted: &T) {
    if is != wanted {
        tracing::warn!("{key} stays {is}: a reload does not change it (restart for {wanted})");
    }
}

fn shown<T: fmt::Display>(value: Option<&T>) -> String {
    value.map_or_else(|| "unset".to_owned(), T::to_string)
}

/// Of its life a service tells the log; not where somebody looks at it anyway.
fn tell(is_shown: bool, line: fmt::Arguments<'_>) {
    if is_shown {
        tracing::debug!("{line}");
    } else {
        tracing::info!("{line}");
    }
}

/// On standard output, which may be gone or full: that is no reason to end.
fn print_ledger(room: &impl Observable) {
    let line = serde_json::to_string(&room.ledger()).map_err(io::Error::from);
    let printed = line.and_then(|line| output::print_patiently(&line));
    if let Err(error) = printed {
        tracing::warn!("print the ledger on standard output: {error}");
    }
}

/// The thread that shows the room.
struct Shown {
    stop: Stop,
    thread: JoinHandle<Result<()>>,
}

impl Shown {
    fn start<N: Send + 'static>(show: Show, events: SyncSender<Event<N>>) -> io::Result<Self> {
        let stop = Stop::new()?;
        let stopped = stop.clone();
        let show = move || {
            let outcome = show(&stopped);
            if !matches!(outcome, Ok(Ended::Stopped)) {
                let _ = events.send(Event::Stop);
            }
            outcome.map(drop)
        };
        let thread = thread::Builder::new().name("screen".into()).spawn(show)?;
        Ok(Self { stop, thread })
    }

    /// Ends it. Whoever has asked for the end waits for no reader of standard output that has stopped to read.
    fn end<N>(self, events: &Receiver<Event<N>>, mut asked: bool) -> Result<()> {
        self.stop.set();
        let mut unread_since = None;
        while !self.thread.is_finished() {
            unread_since = if asked && is_unread() { unread_since.or_else(|| Some(Instant::now())) } else { None };
            ensure!(
                unread_since.is_none_or(|since| since.elapsed() < PATIENCE),
                "write to standard output: nobody reads it: its end is lost"
            );
            match events.recv_timeout(LOOK_AGAIN) {
                Ok(Event::Stop) => asked = true,
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => thread::sleep(LOOK_AGAIN),
            }
        }
        // A panic on that thread has been told on stderr already.
        self.thread.join().unwrap_or(Ok(()))
    }
}

/// Whether standard output takes nothing at present.
fn is_unread() -> bool {
    let stdout = io::stdout();
    poll(&mut [PollFd::new(stdout.as_fd(), PollFlags::POLLOUT)], PollTimeout::ZERO) == Ok(0)
}

/// How long a reader may leave off reading once the end has been asked for.
const PATIENCE: Duration = Duration::from_millis(500);

/// From one look at the thread that shows the room to the next.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Events that may wait for the control thread.
const QUEUE: usize = 64;
