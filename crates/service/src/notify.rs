//! What the service manager is told (sd_notify(3)): ready, reloading, stopping, a status line, and that all is well.
//!
//! Without a service manager (no $NOTIFY_SOCKET) all of it is nothing. Its socket is connected to before privileges are given
//! up: the user that a service becomes may not reach it. Environment variables stay as they are: removing them is unsound once there are threads, and no program that
//! could misread them is started.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

use weir_program::pulse::Pulses;

/// Not set: there is none.
static MANAGER: OnceLock<UnixDatagram> = OnceLock::new();

/// Connects to the service manager, if there is one.
///
/// # Errors
/// There is none at $NOTIFY_SOCKET.
pub(crate) fn connect() -> io::Result<()> {
    let Some(name) = env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match name.as_encoded_bytes().split_first() {
        Some((b'@', abstracted)) => SocketAddr::from_abstract_name(abstracted),
        _ => SocketAddr::from_pathname(&name),
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(LONGEST_WAIT))?;
    socket.connect_addr(&address?)?;
    // A process is one service.
    let _ = MANAGER.set(socket);
    Ok(())
}

fn send(states: &[NotifyState<'_>]) {
    let Some(manager) = MANAGER.get() else { return };
    let message: String = states.iter().map(|state| format!("{state}\n")).collect();
    if let Err(error) = manager.send(message.as_bytes()) {
        tracing::warn!("notify the service manager at $NOTIFY_SOCKET: {error}");
    }
}

/// A manager that reads nothing for so long misses what it is told: far above what one takes for anything, and no stall of ours.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The service does its job from now on, also after a reload. `status` is shown by `systemctl status`.
pub(crate) fn ready(status: &str) {
    send(&[NotifyState::Ready, NotifyState::Status(&in_one_line(status))]);
}

/// A reload has begun; [`ready`] ends it, whether it succeeded or not (Type=notify-reload).
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => send(&[NotifyState::Reloading, now]),
        Err(error) => tracing::warn!("read the monotonic clock: {error}"),
    }
}

/// The service is ending. `status` says what it still does.
pub(crate) fn stopping(status: &str) {
    send(&[NotifyState::Stopping, NotifyState::Status(&in_one_line(status))]);
}

/// What the service is doing, for `systemctl status`.
pub(crate) fn status(status: &str) {
    send(&[NotifyState::Status(&in_one_line(status))]);
}

/// Tells the service manager that all is well, for as long as it is.
#[derive(Debug)]
pub(crate) struct Watchdog {
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
    pub(crate) fn start(pulses: Pulses) -> io::Result<Option<Self>> {
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
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A line break would begin another assignment.
fn in_one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::process::{Command, Stdio};
    use std::{env, fs};

    use super::*;

    /// A service manager that listens on a socket and starts this test program anew as its service.
    struct Manager {
        socket: UnixDatagram,
        directory: tempfile::TempDir,
    }

    impl Manager {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let socket = UnixDatagram::bind(directory.path().join("notify")).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            Self { socket, directory }
        }

        fn service(&self, role: &str) -> Command {
            let mut command = Command::new(env::current_exe().unwrap());
            command.args(["--exact", "notify::tests::play_a_service", "--nocapture"]);
            command.env("NOTIFY_SOCKET", self.directory.path().join("notify")).env(ROLE, role);
            command
        }

        fn hear(&self) -> String {
            let mut bytes = [0; 4096];
            let length = self.socket.recv(&mut bytes).unwrap();
            String::from_utf8(bytes[..length].to_vec()).unwrap()
        }
    }

    const ROLE: &str = "WEIR_TEST_ROLE";

    /// The service of the other tests, in a process of its own: its environment is its own.
    #[test]
    fn play_a_service() {
        match env::var(ROLE).as_deref() {
            Ok("states") => {
                connect().unwrap();
                ready("moving\ndatagrams");
                reloading();
                ready("reloaded");
                stopping("draining");
            }
            Ok("unread") => {
                connect().unwrap();
                // More than its queue takes.
                let began = Instant::now();
                while began.elapsed() < LONGEST_WAIT {
                    status("not read");
                }
            }
            Ok("watched") => {
                connect().unwrap();
                let pulses = Pulses::new();
                let pulse = pulses.pulse("worker 0");
                let watchdog = Watchdog::start(pulses).unwrap().unwrap();
                // Its parent has heard pings when it closes standard input.
                io::stdin().read_line(&mut String::new()).unwrap();
                pulse.work();
                io::stdin().read_line(&mut String::new()).unwrap();
                drop(watchdog);
            }
            Ok("unwatched") => assert!(Watchdog::start(Pulses::new()).unwrap().is_none()),
            Ok(role) => panic!("{ROLE}: {role}"),
            Err(_) => {}
        }
    }

    #[test]
    fn states_are_told_as_sd_notify_3_has_them() {
        let manager = Manager::new();
        assert!(manager.service("states").output().unwrap().status.success());
        assert_eq!(manager.hear(), "READY=1\nSTATUS=moving datagrams\n");
        let reloading = manager.hear();
        let micros = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
        let uptime = fs::read_to_string("/proc/uptime").unwrap();
        let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        let age = uptime - micros.trim_end().parse::<f64>().unwrap() / 1e6;
        assert!((-1.0..60.0).contains(&age), "{reloading} {uptime}");
        assert_eq!(manager.hear(), "READY=1\nSTATUS=reloaded\n");
        assert_eq!(manager.hear(), "STOPPING=1\nSTATUS=draining\n");
    }

    /// The service goes on without it.
    #[test]
    fn a_manager_that_does_not_read_holds_up_nothing_for_long() {
        let manager = Manager::new();
        assert!(manager.service("unread").output().unwrap().status.success());
        assert_eq!(manager.hear(), "STATUS=not read\n");
    }

    #[test]
    fn the_watchdog_is_fed_while_work_goes_on_and_not_beyond() {
        let manager = Manager::new();
        let mut service = manager.service("watched");
        service.env("WATCHDOG_USEC", "200000").stdin(Stdio::piped());
        let mut service = service.spawn().unwrap();
        for _ in 0..4 {
            assert_eq!(manager.hear(), "WATCHDOG=1\n");
        }
        let mut stdin = service.stdin.take().unwrap();
        io::Write::write_all(&mut stdin, b"work without end\n").unwrap();
        let stall = std::iter::repeat_with(|| manager.hear()).find(|told| told != "WATCHDOG=1\n").unwrap();
        assert_eq!(stall, "STATUS=thread worker 0 has made no progress for 0 s\n");
        drop(stdin);
        assert!(service.wait().unwrap().success());
        // No ping came after the stall.
        manager.socket.set_nonblocking(true).unwrap();
        assert!(manager.socket.recv(&mut [0; 100]).is_err());
    }

    #[test]
    fn without_a_watchdog_or_a_manager_nothing_is_told() {
        let manager = Manager::new();
        let mut service = manager.service("unwatched");
        assert!(service.env_remove("WATCHDOG_USEC").output().unwrap().status.success());
        let mut alone = manager.service("states");
        assert!(alone.env_remove("NOTIFY_SOCKET").output().unwrap().status.success());
        manager.socket.set_nonblocking(true).unwrap();
        assert!(manager.socket.recv(&mut [0; 100]).is_err());
    }
}
