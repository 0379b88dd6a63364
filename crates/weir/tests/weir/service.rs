//! What every command owes its surroundings.

use std::fs::File;
use std::process::{Command, Stdio};

pub(crate) fn weir(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A full disk behind standard error changes nothing but what can be read there.
#[test]
fn nobody_panics_when_standard_error_is_full() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let held = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = held.local_addr().unwrap().to_string();
    for (arguments, status) in [
        (&["recv", "--listen", "127.0.0.1:0", "--duration", "1ms"][..], 0),
        (&["recv", "--listen", &taken], 1),
        (&["send", "--to", &taken, "--payload", "15B"], 2),
    ] {
        let output = weir(arguments).stderr(full()).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{arguments:?}");
    }
}
