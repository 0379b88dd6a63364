//! Whether workers answer, as a pulse.

use std::time::Duration;

use weir_program::pulse::Pulse;

use weir_forward::worker::Workers;

/// A pulse at work from a question that nobody answers to the next that somebody does.
pub(super) struct Liveness {
    pulse: Pulse,
    answered: bool,
}

impl Liveness {
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
