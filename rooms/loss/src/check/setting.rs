//! A setting of the machine that can be read, changed and put back.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One setting. Its values are texts, as the kernel shows them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Setting {
    /// A file below /proc/sys, in the namespace that is audited.
    Sysctl {
        /// `net/core/rmem_max`.
        path: String,
    },
    /// The receive buffer of a running socket, bytes as the kernel accounts them.
    SocketBuffer {
        /// The kernel's number of the socket.
        cookie: u64,
        /// Where it receives.
        address: String,
    },
    /// Frames of an interface's receive ring (`ethtool -g`).
    Ring {
        /// The interface.
        interface: String,
    },
    /// Microseconds for which an interface holds interrupts back (`ethtool -c`, rx-usecs).
    Moderation {
        /// The interface.
        interface: String,
    },
}

impl Setting {
    /// The sysctl of this path.
    pub fn sysctl(path: impl Into<String>) -> Setting {
        Setting::Sysctl { path: path.into() }
    }

    /// Whether the kernel may take another value than the one written: the nearest it can do.
    pub fn rounds(&self) -> bool {
        !matches!(self, Setting::Sysctl { .. })
    }

    /// How a person makes the change.
    pub fn command(&self, value: &str) -> String {
        match self {
            Setting::Sysctl { .. } if value.contains(char::is_whitespace) => format!("sysctl -w {self}='{value}'"),
            Setting::Sysctl { .. } => format!("sysctl -w {self}={value}"),
            Setting::SocketBuffer { .. } => {
                // What a program asks for is doubled.
                let asked = value.parse::<u64>().map_or_else(|_| value.to_owned(), |bytes| (bytes / 2).to_string());
                format!("SO_RCVBUF {asked} in the program's settings")
            }
            Setting::Ring { interface } => format!("ethtool -G {interface} rx {value}"),
            Setting::Moderation { interface } => format!("ethtool -C {interface} rx-usecs {value}"),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // With a dot in an interface's name only the slashes are unambiguous; sysctl(8) takes both.
            Setting::Sysctl { path } if path.contains('.') => f.write_str(path),
            Setting::Sysctl { path } => f.write_str(&path.replace('/', ".")),
            Setting::SocketBuffer { address, .. } => write!(f, "receive buffer of {address}"),
            Setting::Ring { interface } => write!(f, "receive ring of {interface}"),
            Setting::Moderation { interface } => write!(f, "rx-usecs of {interface}"),
        }
    }
}

/// A setting and the value it should have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What to change.
    pub setting: Setting,
    /// To what.
    pub value: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_what_a_person_types() {
        let udp_mem = Setting::sysctl("net/ipv4/udp_mem").command("1 2 3");
        assert_eq!(udp_mem, "sysctl -w net.ipv4.udp_mem='1 2 3'");
        let vlan = Setting::sysctl("net/ipv4/conf/eth0.7/rp_filter").command("2");
        assert_eq!(vlan, "sysctl -w net/ipv4/conf/eth0.7/rp_filter=2");
        let socket = Setting::SocketBuffer { cookie: 1, address: "0.0.0.0:5000".into() };
        assert_eq!(socket.command("4268032"), "SO_RCVBUF 2134016 in the program's settings");
        assert_eq!(Setting::Ring { interface: "eth0".into() }.command("4096"), "ethtool -G eth0 rx 4096");
    }
}
