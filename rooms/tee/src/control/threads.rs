//! Threads beside the workers, and whether the workers answer.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use weir_service::pulse::Pulse;
use weir_service::stop::Stop;

use super::events::Event;
use super::state::State;
use crate::screen;
use crate::worker::Workers;

/// The thread for names and probes; it moves no datagrams.
pub(super) struct Beside {
    pub(super) handle: Handle,
    runtime: Option<Runtime>,
}

impl Beside {
    pub(super) fn start() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("beside").enable_all().build()?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // A question to a name server may take long: nobody waits for it.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The thread of the live screen. Whoever ends the screen ends the tee.
pub(super) struct Screen {
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Screen {
    pub(super) fn start(state: Arc<State>, events: SyncSender<Event>) -> io::Result<Self> {
        let stop = Stop::new()?;
        let stopped = stop.clone();
        let show = move || match screen::run(|| state.ledger(), &stopped) {
            Ok(screen::Ended::Asked) => {
                let _ = events.send(Event::Stop);
            }
            Ok(screen::Ended::Stopped) => {}
            Err(error) => tracing::warn!("show the ledger: {error}"),
        };
        let thread = thread::Builder::new().name("screen".into()).spawn(show)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            // A panic on that thread has been told on stderr already.
            let _ = thread.join();
        }
    }
}

/// Whether workers answer, as a pulse: it is at work from a question that nobody answers to the next that somebody does.
pub(super) struct Vigil {
    pulse: Pulse,
    answered: bool,
}

impl Vigil {
    pub(super) fn new(pulse: Pulse) -> Self {
        Self { pulse, answered: true }
    }

    pub(super) fn look(&mut self, workers: &Workers) {
        if self.answered {
            self.pulse.work();
        }
        self.answered = workers.is_alive(PATIENCE);
        if self.answered {
            self.pulse.wait();
        }
    }
}

/// How long a worker may take to answer before that is noted.
const PATIENCE: Duration = Duration::from_secs(1);
