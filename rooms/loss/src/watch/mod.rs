//! Sockets, their buffers, drops by place, processors and interfaces, live.
//!
//! ```text
//! thread attach:  eBPF, while counters are shown already
//! thread sampler: counters, eBPF's maps -> snapshot (running totals and rates), each interval
//!                   -> screen, plain lines or JSON lines (the main thread)
//!                   -> books (few labels) -> /metrics (thread admin)
//! ```

mod attach;
mod counted;
#[cfg(test)]
pub(crate) mod fixture;
mod holders;
mod lost;
mod machine;
mod namespaces;
pub mod settings;
pub mod snapshot;
mod state;
mod totals;
mod traced;
mod view;

use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use crossterm::event::KeyCode;
use ratatui::Frame;
use weir_kernel::namespaces::NetNs;
use weir_kernel::sysctl;
use weir_kernel::trace::Filter;
use weir_service::admin::Admin;
use weir_service::notify::{self, Watchdog};
use weir_service::pulse::{Pulse, Pulses};
use weir_service::screen::{self, Picture};
use weir_service::stop::Stop;
use weir_service::{log, output};

use crate::metrics::Books;
use attach::Attached;
use machine::Machine;
use settings::{Settings, Where};
use snapshot::{Snapshot, Sort};
use state::State;
use view::Look;

/// How whoever started it wants to see it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Prints a JSON object a snapshot, instead of a screen or lines.
    pub json: bool,
    /// Where `/metrics` is served.
    pub admin: Option<SocketAddr>,
    /// How long; `None`: until somebody ends it.
    pub duration: Option<Duration>,
    /// As in [`log::start`].
    pub verbosity: u8,
}

/// Watches until somebody ends it or the time is over.
///
/// # Errors
/// One line: a namespace is not there or may not be entered, the admin address is taken, standard output fails.
pub fn run(settings: &Settings, manner: Manner) -> Result<()> {
    let stop = Stop::on_signals().context("watch for signals")?;
    let admin = manner.admin.map(Admin::bind).transpose()?;
    let mut machine = Machine::open(settings.clone())?;
    let filter = Filter {
        ports: settings.ports.clone(),
        namespaces: if settings.namespaces == Where::All { Vec::new() } else { machine.inodes() },
    };
    let mut attached = Attached::start(settings.trace, filter).context("start a thread")?;
    let log = log::start(manner.verbosity).context("start the log")?;
    let pulses = Pulses::new();
    let pulse = pulses.pulse("sampler");
    let first = machine.read(&mut attached);
    let books = Books::new(ephemeral_ports(), settings.ports.clone());
    let state = Arc::new(State::new(first, books, pulses.clone()));
    let serving = admin.map(|admin| admin.serve(state.clone())).transpose()?;
    let watchdog = Watchdog::start(pulses).context("start the watchdog")?;
    let on_screen = !manner.json && screen::is_terminal();
    let pace = Pace {
        first: if on_screen { FIRST_RATES.min(settings.interval) } else { settings.interval },
        then: settings.interval,
        until: manner.duration.map(|duration| Instant::now() + duration),
    };
    let sampler = Sampler { machine, attached, state: state.clone(), pulse, pace, stop: stop.clone() };
    let sampler =
        thread::Builder::new().name("sampler".into()).spawn(move || sampler.run()).context("start a thread")?;
    if let Some(serving) = &serving {
        tracing::info!("admin: http://{}/", serving.local_addr());
    }
    let status = format!("{} sockets", state.latest().sockets.len());
    tracing::debug!("ready: {status}");
    notify::ready(&status);

    let shown = if manner.json { print_json(&state) } else { show(&state, &stop) };
    notify::stopping("reading the last counters");
    end(&stop, sampler);
    if !manner.json {
        output::print(format_args!("{}\n", view::line(&state.latest())));
    }
    drop((watchdog, serving, log));
    shown.context("show what is watched")
}

/// On the screen or in lines, until the stop is set.
fn show(state: &State, stop: &Stop) -> io::Result<()> {
    let now = state.latest();
    let mut live = Live { state, before: now.clone(), now, look: Look::default() };
    screen::run(&mut live, FRAMES_APART, stop).map(drop)
}

/// A line a snapshot, until there are no more or nobody reads them.
fn print_json(state: &State) -> io::Result<()> {
    let mut number = 0;
    while let Some((next, snapshot)) = state.next(number) {
        number = next;
        let line = serde_json::to_string(&*snapshot).map_err(io::Error::from)?;
        let mut output = io::stdout().lock();
        match writeln!(output, "{line}").and_then(|()| output.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            result => result?,
        }
    }
    Ok(())
}

fn end(stop: &Stop, sampler: JoinHandle<()>) {
    stop.set();
    // A panic on that thread has been told on stderr already.
    let _ = sampler.join();
}

/// Ports that the kernel gives out by itself; its default where it does not tell.
fn ephemeral_ports() -> std::ops::RangeInclusive<u16> {
    let text = NetNs::current().and_then(|own| sysctl::get(&own, "ipv4/ip_local_port_range")).unwrap_or_default();
    let mut ports = text.split_whitespace().filter_map(|port| port.parse().ok());
    ports.next().unwrap_or(32_768)..=ports.next().unwrap_or(60_999)
}

/// What is on the screen.
struct Live<'a> {
    state: &'a State,
    /// Of the line before.
    before: Arc<Snapshot>,
    now: Arc<Snapshot>,
    look: Look,
}

impl Picture for Live<'_> {
    fn advance(&mut self) {
        self.before = std::mem::replace(&mut self.now, self.state.latest());
    }

    fn draw(&self, frame: &mut Frame<'_>, notes: &[String]) {
        view::draw(frame, &self.now, self.look, notes);
    }

    /// Over all the time since the line before.
    fn line(&self) -> String {
        let mut now = Snapshot::clone(&self.now);
        now.pace(&self.before);
        view::line(&now)
    }

    fn press(&mut self, key: KeyCode) {
        let most = self.now.sockets.len();
        match key {
            KeyCode::Char('d') => self.look.sort = Sort::Drops,
            KeyCode::Char('r') => self.look.sort = Sort::Rate,
            KeyCode::Char('b') => self.look.sort = Sort::Buffer,
            KeyCode::Char('s') => self.look.sort = Sort::Stall,
            KeyCode::Char('p') => self.look.sort = Sort::Port,
            KeyCode::Down => self.look.skipped = (self.look.skipped + 1).min(most),
            KeyCode::Up => self.look.skipped = self.look.skipped.saturating_sub(1),
            KeyCode::PageDown => self.look.skipped = (self.look.skipped + 10).min(most),
            KeyCode::PageUp => self.look.skipped = self.look.skipped.saturating_sub(10),
            KeyCode::Home => self.look.skipped = 0,
            _ => {}
        }
    }
}

/// When it is read.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// From the first reading to the second: rates are wanted soon.
    first: Duration,
    then: Duration,
    until: Option<Instant>,
}

/// Reads again and again.
struct Sampler {
    machine: Machine,
    attached: Attached,
    state: Arc<State>,
    pulse: Pulse,
    pace: Pace,
    stop: Stop,
}

impl Sampler {
    /// Until the stop is set or the time is over: then once more, so that the last snapshot has everything.
    fn run(mut self) {
        let mut due = Instant::now() + self.pace.first;
        loop {
            self.pulse.wait();
            let over = self.pace.until.is_some_and(|until| until <= due);
            let stopped = self.stop.wait(self.pace.until.map_or(due, |until| until.min(due)));
            self.pulse.work();
            self.state.set(self.machine.read(&mut self.attached));
            if stopped || over {
                break;
            }
            // What took longer than the interval is not caught up with.
            due = (due + self.pace.then).max(Instant::now());
        }
        self.state.end();
        self.stop.set();
    }
}

/// From the first picture to the first rates.
const FIRST_RATES: Duration = Duration::from_millis(250);

/// From one look for a new snapshot to the next.
const FRAMES_APART: Duration = Duration::from_millis(100);
