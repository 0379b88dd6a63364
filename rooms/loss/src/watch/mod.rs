//! Sockets, their buffers, drops by place, processors and interfaces, live.
//!
//! ```text
//! thread attach:  eBPF, while counters are shown already
//! thread control: counters, eBPF's maps -> snapshot (running totals and rates), each interval
//!                   -> screen, plain lines or JSON lines (thread screen)
//!                   -> books (few labels) -> /metrics (thread admin)
//! ```

mod attach;
mod counted;
#[cfg(test)]
pub(crate) mod fixture;
mod holders;
mod lost;
mod machine;
pub(crate) mod namespaces;
mod privileges;
mod room;
mod rows;
mod screen;
pub mod settings;
pub(crate) mod snapshot;
mod state;
mod totals;
mod traced;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use weir_kernel::limits::ensure_file_descriptors;
use weir_kernel::namespaces::NetNs;
use weir_kernel::sysctl;
use weir_program::output;
use weir_program::output::complain;
use weir_service::privileges::Needs;
use weir_service::screen::is_terminal;
use weir_service::{Launch, Setup};
use weir_trace::Filter;
use weir_units::format::shown;

use crate::metrics::Books;
use attach::Attached;
use machine::Machine;
use room::{Pace, Watch};
use settings::{WatchOptions, Where};
use state::State;

/// How whoever started it wants to see it.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Prints a JSON object a snapshot, instead of a screen or lines.
    pub json: bool,
    /// How long; `None`: until somebody ends it.
    pub duration: Option<Duration>,
    /// As every service.
    pub launch: Launch,
}

/// Watches until somebody ends it or the time is over.
///
/// # Errors
/// One line: a namespace is not there or may not be entered, the admin address is taken, standard output fails.
pub fn run(settings: &WatchOptions, options: Options) -> Result<()> {
    let Options { json, duration, launch } = options;
    if let Some(process) = settings.process.as_ref().filter(|process| !process.runs()) {
        let process = process.to_string();
        complain!("weir: process {}: there is no such process (yet): it is waited for", shown(&process));
    }
    let capabilities = privileges::needed(settings);
    // A process that is confined may not look at those of others.
    let mut service = Setup::new(launch)?.start(Needs { capabilities, is_unconfined: true, ..Needs::default() })?;
    // Several a namespace; where they are not enough, what cannot be opened is told.
    let _ = ensure_file_descriptors(0);
    let mut machine = Machine::open(settings.clone())?;
    let filter = Filter {
        ports: settings.ports.clone(),
        namespaces: if settings.namespaces == Where::All { Vec::new() } else { machine.inodes() },
    };
    let mut attached = Attached::start(settings.trace, filter).context("start a thread")?;
    let first = machine.read(&mut attached);
    let books = Books::new(ephemeral_ports(), settings.ports.clone());
    let state = Arc::new(State::new(first, books));
    let shown = state.clone();
    service.show(move |stop| {
        let shown = if json { screen::print_json(&shown) } else { screen::show(&shown, stop) };
        shown.context("show what is watched")
    });
    let on_screen = !json && is_terminal();
    let first = if on_screen { FIRST_RATES.min(settings.interval) } else { settings.interval };
    let pace = Pace {
        due: Instant::now() + first,
        interval: settings.interval,
        until: duration.map(|duration| Instant::now() + duration),
    };
    let ended = service.run(&mut Watch { machine, attached, state: state.clone(), pace });
    // Lines have told it already; a reader who does not read holds up nobody.
    if on_screen && ended.is_ok() {
        output::print(format_args!("{}\n", screen::line(&state.latest())));
    }
    ended
}

/// Ports that the kernel gives out by itself; its default where it does not tell.
fn ephemeral_ports() -> std::ops::RangeInclusive<u16> {
    let text = NetNs::current().and_then(|own| sysctl::get(&own, "ipv4/ip_local_port_range")).unwrap_or_default();
    let mut ports = text.split_whitespace().filter_map(|port| port.parse().ok());
    ports.next().unwrap_or(32_768)..=ports.next().unwrap_or(60_999)
}

/// From the first picture to the first rates.
const FIRST_RATES: Duration = Duration::from_millis(250);
