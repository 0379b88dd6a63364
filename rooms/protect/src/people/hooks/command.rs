//! A program that is started for each event. There is no shell, nothing of an event is among its arguments, and it has nothing of our
//! environment but PATH.

use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::{Carrier, Event};

/// Starts it.
pub(super) struct Program {
    line: Vec<String>,
    timeout: Duration,
}

/// A program that runs, and all that it has started: killed when dropped, unless it has ended.
struct Running {
    child: Child,
    group: Option<Pid>,
}

impl Program {
    pub(super) fn new(line: Vec<String>, timeout: Duration) -> Self {
        Self { line, timeout }
    }

    fn start(&self) -> std::io::Result<Running> {
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
        let mut command = Command::new(&self.line[0]);
        command.args(&self.line[1..]).env_clear().env("PATH", path).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.process_group(0).kill_on_drop(true).spawn()?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        Ok(Running { child, group })
    }
}

impl Carrier for Program {
    const NAME: &'static str = "command";

    async fn carry(&mut self, event: &Event) -> Result<(), String> {
        let name = &self.line[0];
        let mut running = self.start().map_err(|error| format!("{name}: {error}"))?;
        let json = event.json();
        let working = async {
            if let Some(mut stdin) = running.child.stdin.take() {
                // Whoever reads nothing is told nothing: its exit status counts.
                let _ = stdin.write_all(&json).await;
            }
            running.child.wait().await
        };
        match timeout(self.timeout, working).await {
            Err(_) => Err(format!("{name}: killed after {} s", self.timeout.as_secs_f64())),
            Ok(Err(error)) => Err(format!("{name}: {error}")),
            Ok(Ok(status)) => {
                running.group = None;
                if status.success() { Ok(()) } else { Err(format!("{name}: {status}")) }
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            // It is not waited for yet, so that the number is still its own.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}
