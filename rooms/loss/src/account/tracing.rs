//! The trace of an account, at the most that is wanted and permitted.

use std::sync::Arc;

use weir_kernel::Error;
use weir_trace::{Detail, Extras, Filter, Samples, Trace, Tracer};

/// A trace, or why there is none.
pub(super) struct Tracing {
    tracer: Option<Tracer>,
    /// What was refused, in one line.
    pub(super) refused: Option<String>,
}

impl Tracing {
    /// Traces as much of `wanted` as the kernel permits; `None`: nothing.
    pub(super) fn start(wanted: Option<Detail>, filter: &Filter, extras: &Extras) -> Tracing {
        let Some(wanted) = wanted else { return Tracing { tracer: None, refused: None } };
        match Tracer::start_with(wanted, filter, extras) {
            Ok(tracer) => {
                let refused = tracer.refused();
                let refused = (!refused.is_empty() && tracer.detail() < wanted).then(|| refused.join("; "));
                Tracing { tracer: Some(tracer), refused }
            }
            Err(error) => Tracing { tracer: None, refused: Some(error.to_string()) },
        }
    }

    /// How much is traced.
    pub(super) fn detail(&self) -> Option<Detail> {
        self.tracer.as_ref().map(Tracer::detail)
    }

    /// Samples of what was dropped; none without a trace.
    pub(super) fn samples(&mut self) -> Result<Samples, Error> {
        self.tracer.as_mut().map_or(Ok(Samples::default()), Tracer::samples)
    }

    /// Totals since the start; without a trace nothing. What cannot be read ends the trace, and is told.
    pub(super) fn read(&mut self) -> Arc<Trace> {
        match self.tracer.as_mut().map(Tracer::read) {
            None => Arc::default(),
            Some(Ok(trace)) => Arc::new(trace),
            Some(Err(error)) => {
                self.tracer = None;
                self.refused = Some(error.to_string());
                Arc::default()
            }
        }
    }
}
