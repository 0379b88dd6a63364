//! What the rooms `loss`, `monitor`, `protect` and `sflow` have from here until they have it from `crate` and the test bed. To be
//! removed with them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, ExitStatus};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::Machine;
pub(crate) use crate::weir;
pub(crate) use weir_testbed::PATIENCE;

pub(crate) const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// A service and its manager: this test. Killed when dropped.
pub(crate) struct Service {
    pub(crate) child: Child,
    manager: UnixDatagram,
    _directory: TempDir,
}

impl Service {
    /// Starts it; returns when it has said that it is ready.
    pub(crate) fn start(machine: &Machine, mut command: Command) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("notify");
        let manager = UnixDatagram::bind(&socket).unwrap();
        // Whoever the service becomes, it may speak to its manager.
        for path in [directory.path(), &socket] {
            fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
        }
        manager.set_read_timeout(Some(PATIENCE)).unwrap();
        command.env("NOTIFY_SOCKET", &socket);
        let child = machine.run(move || command.spawn().unwrap());
        let service = Self { child, manager, _directory: directory };
        // A watchdog may be fed before.
        while !service.hear().starts_with("READY=1\n") {}
        service
    }

    /// What it tells its manager next.
    pub(crate) fn hear(&self) -> String {
        let mut bytes = [0; 4096];
        let length = self.manager.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    pub(crate) fn end(&mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.child.wait().unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
