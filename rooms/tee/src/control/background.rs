//! The thread for names and probes; it moves no datagrams.

use std::io;

use tokio::runtime::{Builder, Handle, Runtime};

/// A runtime of one thread, which ends when this is dropped.
#[derive(Debug)]
pub struct Background {
    /// Where tasks are started.
    pub handle: Handle,
    runtime: Option<Runtime>,
}

impl Background {
    /// Starts the thread, named `background`.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("background").enable_all().build()?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // A question to a name server may take long: nobody waits for it.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
