//! What the service manager is told (sd_notify(3)): ready, reloading, stopping, a status line, and that all is well.
//!
//! Without a service manager (no $NOTIFY_SOCKET) all of it is nothing. Environment variables stay as they are: removing
//! them is unsound once there are threads, and no program that could misread them is started.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

use super::pulse::Pulses;

/// The service does its job from now on, also after a reload. `status` is shown by `systemctl status`.
pub fn ready(status: &str) {
    send(&[NotifyState::Ready, NotifyState::Status(&in_one_line(status))]);
}

/// A reload has begun; [`ready`] ends it, whether it succeeded or not (Type=notify-reload).
pub fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => send(&[NotifyState::Reloading, now]),
        Err(error) => tracing::warn!("read the monotonic clock: {error}"),
    }
}

/// The service is ending. `status` says what it still does.
pub fn stopping(status: &str) {
    send(&[NotifyState::Stopping, NotifyState::Status(&in_one_line(status))]);
}

/// What the service is doing, for `systemctl status`.
pub fn status(status: &str) {
    send(&[NotifyState::Status(&in_one_line(status))]);
}

/// Tells the service manager that all is well, for as long as it is.
#[derive(Debug)]
pub struct Watchdog {
    /// Dropping the sender ends the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Starts a thread that pings the service manager while all `pulses` beat; `None` if the manager expects no pings
    /// ($WATCHDOG_USEC). A thread is stalled when one piece of work takes half of the manager's patience.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(pulses: Pulses) -> io::Result<Option<Self>> {
        let Some(patience) = sd_notify::watchdog_enabled().filter(|patience| !patience.is_zero()) else {
            return Ok(None);
        };
        let (stop, stopped) = mpsc::channel();
        let watch = move || {
            let mut told = false;
            loop {
                match pulses.check(Instant::now(), patience / 2) {
                    Ok(()) => {
                        told = false;
                        send(&[NotifyState::Watchdog]);
                    }
                    Err(stall) if !told => {
                        told = true;
                        tracing::error!("the watchdog is not told that all is well: {stall}");
                        status(&stall);
                    }
                    Err(_) => {}
                }
                if stopped.recv_timeout(patience / 4) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("watchdog".into()).spawn(watch)?;
        Ok(Some(Self { stop: Some(stop), thread: Some(thread) }))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic on that thread has been told on stderr already.
            let _ = thread.join();
        }
    }
}

/// How long a piece of work may take before `/healthz` fails, where no service manager says: far above what a batch of
/// datagrams takes on the slowest machine.
pub const PATIENCE: Duration = Duration::from_secs(10);

fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!("notify the service manager at $NOTIFY_SOCKET: {error}");
    }
}

/// A line break would begin another assignment.
fn in_one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}
