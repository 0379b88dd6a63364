//! Sockets that a service manager opened for us (socket activation, sd_listen_fds(3)).

use std::env;
use std::os::fd::{OwnedFd, RawFd};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::During;
use crate::{Error, sys};

/// A socket that was open when this program was executed.
#[derive(Debug)]
pub struct Inherited {
    /// The manager's name for it (`FileDescriptorName=`, by default the socket unit's name); `None`: it gave none.
    pub name: Option<String>,
    /// The socket. Programs started from here do not get it.
    pub socket: OwnedFd,
}

/// Takes over the sockets that $LISTEN_FDS announces, if $LISTEN_PID means this process; none otherwise. To be called
/// first thing in `main`, before anything is opened or any thread is started; a second call gives nothing.
///
/// # Errors
/// If the variables are not numbers, or fewer descriptors are open than announced.
pub fn inherited() -> Result<Vec<Inherited>, Error> {
    let variable = |name| env::var(name).ok();
    let announced = announced(variable("LISTEN_PID"), variable("LISTEN_FDS"), process::id())?;
    // They may be owned once only.
    if announced == 0 || TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let names = variable("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':').map(|name| (!name.is_empty()).then(|| name.to_owned()));
    let take = |number| {
        let socket = sys::inherited_descriptor(number).during(|| format!("take over descriptor {number}"))?;
        Ok(Inherited { name: names.next().flatten(), socket })
    };
    (FIRST..FIRST + announced).map(take).collect()
}

/// How many descriptors are meant for the process `own`.
fn announced(pid: Option<String>, count: Option<String>, own: u32) -> Result<RawFd, Error> {
    let (Some(pid), Some(count)) = (pid, count) else { return Ok(0) };
    let wrong = |name: &str, value: &str| Error::answer("take over sockets", format!("${name} is `{value}`"));
    if pid.parse::<u32>().map_err(|_| wrong("LISTEN_PID", &pid))? != own {
        return Ok(0);
    }
    let number = count.parse::<u16>().map_err(|_| wrong("LISTEN_FDS", &count))?;
    Ok(RawFd::from(number))
}

static TAKEN: AtomicBool = AtomicBool::new(false);

/// SD_LISTEN_FDS_START.
const FIRST: RawFd = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_meant_for_us_is_taken() {
        let ask = |pid: Option<&str>, count: Option<&str>| {
            announced(pid.map(str::to_owned), count.map(str::to_owned), 17).map_err(|error| error.to_string())
        };
        assert_eq!(ask(None, None), Ok(0));
        assert_eq!(ask(None, Some("2")), Ok(0));
        assert_eq!(ask(Some("17"), None), Ok(0));
        assert_eq!(ask(Some("18"), Some("2")), Ok(0));
        assert_eq!(ask(Some("17"), Some("2")), Ok(2));
        assert_eq!(ask(Some("x"), Some("2")), Err("take over sockets: $LISTEN_PID is `x`".into()));
        assert_eq!(ask(Some("17"), Some("-1")), Err("take over sockets: $LISTEN_FDS is `-1`".into()));
    }
}
