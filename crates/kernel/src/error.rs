//! What can go wrong, in one line each: operation, object, reason, remedy.

use std::io;

use nix::errno::Errno;

/// A request the kernel refused, or an answer we cannot use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A system call or netlink request failed.
    #[error("{operation}: {}{}", reason(*errno), remedy(*errno))]
    System {
        /// What was tried, with its object: `create veth pair h1/eth0 - sw/p1`.
        operation: String,
        /// Why it failed.
        errno: Errno,
    },
    /// The kernel permits it only with a capability.
    #[error(
        "{operation}: operation not permitted (needs {capability}: run as root, or where user namespaces are allowed)"
    )]
    NotPermitted {
        /// What was tried, with its object.
        operation: String,
        /// The capability, by name.
        capability: &'static str,
    },
    /// The kernel has no IPv6, or has it switched off.
    #[error("{operation}: this kernel has no IPv6 (ipv6.disable=1?): remove the IPv6 addresses from the scenario")]
    NoIpv6 {
        /// What was tried, with its object.
        operation: String,
    },
    /// The machine's settings forbid namespaces to ordinary users.
    #[error("create a network as an ordinary user: {0}")]
    Forbidden(String),
    /// The process may not open as many files as it needs.
    #[error(
        "{needed} file descriptors are needed, the limit is {limit}: raise it with `ulimit -n {needed}` \
         (LimitNOFILE={needed} in a systemd unit)"
    )]
    FileDescriptors {
        /// How many are needed.
        needed: u64,
        /// The hard limit (RLIMIT_NOFILE).
        limit: u64,
    },
    /// Somebody answered in a way we do not understand.
    #[error("{operation}: {detail}")]
    Answer {
        /// What was asked, with its object.
        operation: String,
        /// What is wrong with the answer.
        detail: String,
    },
}

impl Error {
    /// The reason as an error number, where there is one.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Error::System { errno, .. } => Some(*errno),
            Error::NotPermitted { .. } => Some(Errno::EPERM),
            _ => None,
        }
    }

    /// Names the capability that is missing where the kernel said EPERM: most requests of ours need CAP_NET_ADMIN.
    pub(crate) fn needs(self, capability: &'static str) -> Error {
        match self {
            Error::System { operation, errno: Errno::EPERM } => Error::NotPermitted { operation, capability },
            other => other,
        }
    }

    /// An answer that we cannot use.
    pub fn answer(operation: impl Into<String>, detail: impl Into<String>) -> Error {
        Error::Answer { operation: operation.into(), detail: detail.into() }
    }
}

/// Names the operation of a failed call.
pub trait During<T> {
    /// `operation` is only evaluated for an error.
    fn during<S: Into<String>>(self, operation: impl FnOnce() -> S) -> Result<T, Error>;
}

impl<T> During<T> for Result<T, Errno> {
    fn during<S: Into<String>>(self, operation: impl FnOnce() -> S) -> Result<T, Error> {
        self.map_err(|errno| Error::System { operation: operation().into(), errno })
    }
}

impl<T> During<T> for Result<T, io::Error> {
    fn during<S: Into<String>>(self, operation: impl FnOnce() -> S) -> Result<T, Error> {
        self.map_err(|error| match error.raw_os_error() {
            Some(code) => Error::System { operation: operation().into(), errno: Errno::from_raw(code) },
            None => Error::answer(operation(), error.to_string()),
        })
    }
}

fn reason(errno: Errno) -> String {
    let text = errno.desc();
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

fn remedy(errno: Errno) -> &'static str {
    match errno {
        Errno::EPERM => " (needs CAP_NET_ADMIN: run as root, or where user namespaces are allowed)",
        Errno::EACCES => " (run as root, or as its owner)",
        Errno::EMFILE => " (raise the limit with `ulimit -n`, or LimitNOFILE in a systemd unit)",
        Errno::ENFILE => " (raise the sysctl fs.file-max)",
        Errno::ENOSPC => " (a limit on namespaces? see the sysctls user.max_*_namespaces)",
        Errno::EROFS => " (in a container: make /proc/sys writable, as --privileged does)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_names_operation_reason_and_remedy() {
        let refused = Err::<(), _>(Errno::EPERM).during(|| "create veth pair eth0 - p1").unwrap_err();
        assert_eq!(
            refused.to_string(),
            "create veth pair eth0 - p1: operation not permitted \
             (needs CAP_NET_ADMIN: run as root, or where user namespaces are allowed)"
        );
        let missing = Err::<(), _>(io::Error::from_raw_os_error(libc::ENODEV)).during(|| "set eth0 up").unwrap_err();
        assert_eq!(missing.to_string(), "set eth0 up: no such device");
        assert_eq!(missing.errno(), Some(Errno::ENODEV));
    }
}
