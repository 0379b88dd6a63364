//! eBPF, attached beside the watch: that takes a moment, and counters can be shown meanwhile.

use std::io;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

use weir_kernel::Error;
use weir_trace::{Detail, Filter, Trace, Tracer};

/// What became of it.
pub(super) enum Attached {
    /// It was not asked for, or is refused.
    Off { refused: Option<String> },
    /// Not yet decided.
    Starting(Receiver<Result<Tracer, Error>>),
    /// It counts.
    On(Box<Tracer>),
}

impl Attached {
    /// Begins to attach on a thread of its own, named `attach`. `None`: nothing is traced.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(super) fn start(detail: Option<Detail>, filter: Filter) -> io::Result<Self> {
        let Some(detail) = detail else { return Ok(Self::Off { refused: None }) };
        let (sender, receiver) = channel();
        let attach = move || {
            // Nobody may wait for it any more.
            let _ = sender.send(Tracer::start(detail, &filter).map(|mut tracer| {
                // The first reading looks up names, which takes long: not in the middle of others.
                let _ = tracer.read();
                tracer
            }));
        };
        thread::Builder::new().name("attach".into()).spawn(attach)?;
        Ok(Self::Starting(receiver))
    }

    /// What has been counted; `None`: nothing is traced (yet).
    pub(super) fn read(&mut self, notes: &mut Vec<String>) -> Option<Trace> {
        if let Self::Starting(receiver) = self {
            *self = match receiver.try_recv() {
                Err(TryRecvError::Empty) => return None,
                Ok(Ok(tracer)) => Self::On(Box::new(tracer)),
                Ok(Err(error)) => Self::Off { refused: Some(error.to_string()) },
                Err(TryRecvError::Disconnected) => {
                    Self::Off { refused: Some("the thread that attaches it panicked".into()) }
                }
            };
        }
        let Self::On(tracer) = self else { return None };
        tracer.read().map_err(|error| notes.push(error.to_string())).ok()
    }

    /// Removes the states of closed sockets: see [`Tracer::remove_closed`].
    pub(super) fn remove_closed(&mut self, open: impl Fn(u64) -> bool) -> Result<(), Error> {
        match self {
            Self::On(tracer) => tracer.remove_closed(open),
            _ => Ok(()),
        }
    }

    /// How much is traced, by name.
    pub(super) fn level(&self) -> &'static str {
        match self {
            Self::Off { .. } => "off",
            Self::Starting(_) => "starting",
            Self::On(tracer) => tracer.detail().name(),
        }
    }

    /// Why it is less than was asked for.
    pub(super) fn refused(&self) -> Option<String> {
        match self {
            Self::Off { refused } => refused.clone(),
            Self::Starting(_) => None,
            Self::On(tracer) => (!tracer.refused().is_empty()).then(|| tracer.refused().join("; ")),
        }
    }

    /// Whether queues are traced.
    pub(super) fn has_queues(&self) -> bool {
        matches!(self, Self::On(tracer) if tracer.detail() >= Detail::Queues)
    }
}
