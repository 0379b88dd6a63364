//! A program that is started for each event. There is no shell, nothing of an event is among its arguments, and it has nothing of our
//! environment but PATH.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::{Carrier, Event};

/// Starts it.
pub(super) struct Program {
    line: Vec<String>,
    timeout: Duration,
}

impl Program {
    pub(super) fn new(line: Vec<String>, timeout: Duration) -> Self {
        Self { line, timeout }
    }

    fn start(&self) -> std::io::Result<Child> {
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
        let mut command = Command::new(&self.line[0]);
        command.args(&self.line[1..]).env_clear().env("PATH", path).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.process_group(0).spawn()
    }

    /// `None`: it took too long, or nobody waits for it any more, and it was killed with all that it had started.
    fn run(&self, json: &[u8], ends: &AtomicBool) -> std::io::Result<Option<std::process::ExitStatus>> {
        let until = Instant::now() + self.timeout;
        let mut child = self.start()?;
        if let Some(mut stdin) = child.stdin.take() {
            // A pipe has room for it. Whoever reads nothing is told nothing: its exit status counts.
            let _ = stdin.write_all(json);
        }
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= until || ends.load(Ordering::Relaxed) {
                // It is not waited for yet, so that the number is still its own.
                let _ = killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL);
                return child.wait().map(|_| None);
            }
            thread::sleep(LOOKS_APART);
        }
    }
}

impl Carrier for Program {
    const NAME: &'static str = "command";

    fn carry(&mut self, event: &Event, ends: &AtomicBool) -> Result<(), String> {
        let name = &self.line[0];
        match self.run(&event.json(), ends) {
            Ok(Some(status)) if status.success() => Ok(()),
            Ok(Some(status)) => Err(format!("{name}: {status}")),
            Ok(None) => Err(format!("{name}: killed after {} s", self.timeout.as_secs_f64())),
            Err(error) => Err(format!("{name}: {error}")),
        }
    }
}

/// From one look at whether it has ended to the next.
const LOOKS_APART: Duration = Duration::from_millis(10);
