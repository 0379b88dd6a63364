//! Sockets passed by a service manager, and which listener each is for.

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use socket2::{SockRef, Type};
use weir_kernel::activation::Inherited;

/// Sockets that were passed and are not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Passed(Vec<Socket>);

#[derive(Debug)]
struct Socket {
    name: Option<String>,
    kind: Kind,
    /// `None`: not an Internet socket.
    address: Option<SocketAddr>,
    socket: OwnedFd,
}

/// What a socket can be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// UDP: a listener for datagrams (`ListenDatagram=`).
    Datagrams,
    /// TCP: the admin address (`ListenStream=`).
    Connections,
    /// Neither.
    Other,
}

/// Why what was passed cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// Nothing in the configuration asked for them: datagrams would wait in them for ever.
    #[error(
        "socket activation: nothing listens on {} (give a listener, or for tcp `admin`, this address, or the socket unit \
         `FileDescriptorName=` with a listener's name or `admin`)",
        .0.join(", ")
    )]
    Unused(Vec<String>),
    /// A socket is bound to another address than the configuration has.
    #[error("socket activation: {user} is passed {bound}, and its address is {address} (make them one)")]
    Elsewhere {
        /// Whose it is to be.
        user: String,
        /// The socket's address.
        bound: SocketAddr,
        /// That of the configuration.
        address: SocketAddr,
    },
    /// Several sockets for the one admin address: connections would wait in the second one for ever.
    #[error("socket activation: {ADMIN} is passed {0} more than once (pass one)")]
    Twice(SocketAddr),
    /// A connection instead of a socket that takes connections.
    #[error("socket activation: {ADMIN} is passed a connection (set `Accept=no`)")]
    Connection,
}

impl Passed {
    /// What [`weir_kernel::activation::inherited`] took over.
    pub(crate) fn new(inherited: Vec<Inherited>) -> Self {
        let describe = |Inherited { name, socket }: Inherited| {
            let view = SockRef::from(&socket);
            let address = view.local_addr().ok().and_then(|address| address.as_socket());
            let kind = match view.r#type() {
                Ok(Type::DGRAM) if address.is_some() => Kind::Datagrams,
                Ok(Type::STREAM) if address.is_some() => Kind::Connections,
                _ => Kind::Other,
            };
            Socket { name, kind, address, socket }
        };
        Self(inherited.into_iter().map(describe).collect())
    }

    /// Takes the sockets for a listener: those of its name, else those bound to its address. Where a whole socket unit
    /// shares one name, the address tells its sockets apart: a socket of the name that is bound to another address than
    /// one of the same name is left. Empty: none was passed for it.
    pub(crate) fn take(&mut self, kind: Kind, name: &str, address: SocketAddr) -> Vec<OwnedFd> {
        let named = |socket: &Socket| socket.kind == kind && socket.name.as_deref() == Some(name);
        let bound = |socket: &Socket| socket.kind == kind && socket.address == Some(address);
        let both = self.0.iter().any(|socket| named(socket) && bound(socket));
        let by_name = self.0.iter().any(named);
        let wanted = |socket: &Socket| match (both, by_name) {
            (true, _) => named(socket) && bound(socket),
            (false, true) => named(socket),
            (false, false) => bound(socket),
        };
        let (taken, left) = std::mem::take(&mut self.0).into_iter().partition(wanted);
        self.0 = left;
        Vec::into_iter(taken).map(|socket: Socket| socket.socket).collect()
    }

    /// Takes the sockets for a listener of datagrams, as [`Passed::take`] finds them.
    ///
    /// # Errors
    /// One is bound to another address.
    pub(crate) fn listener(&mut self, name: &str, address: SocketAddr) -> Result<Vec<OwnedFd>, Error> {
        let sockets = self.take(Kind::Datagrams, name, address);
        sockets.iter().try_for_each(|socket| is_bound(socket, address, format!("listener `{name}`")))?;
        Ok(sockets)
    }

    /// Takes the socket for the admin address; `None`: none was passed.
    ///
    /// # Errors
    /// There are several, or it is bound to another address, or does not listen.
    pub(crate) fn admin(&mut self, address: SocketAddr) -> Result<Option<TcpListener>, Error> {
        let mut sockets = self.take(Kind::Connections, ADMIN, address).into_iter();
        let Some(socket) = sockets.next() else { return Ok(None) };
        is_bound(&socket, address, ADMIN.to_owned())?;
        if sockets.next().is_some() {
            return Err(Error::Twice(address));
        }
        if !SockRef::from(&socket).is_listener().unwrap_or(true) {
            return Err(Error::Connection);
        }
        Ok(Some(socket.into()))
    }

    /// Makes sure that all were taken.
    ///
    /// # Errors
    /// [`Error::Unused`], naming those that were not.
    pub(crate) fn finish(self) -> Result<(), Error> {
        if self.0.is_empty() { Ok(()) } else { Err(Error::Unused(self.0.iter().map(Socket::to_string).collect())) }
    }
}

fn is_bound(socket: &OwnedFd, address: SocketAddr, user: String) -> Result<(), Error> {
    match SockRef::from(socket).local_addr().ok().and_then(|bound| bound.as_socket()) {
        Some(bound) if bound != address => Err(Error::Elsewhere { user, bound, address }),
        _ => Ok(()),
    }
}

impl fmt::Display for Socket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Datagrams => "udp",
            Kind::Connections => "tcp",
            Kind::Other => "a socket that is neither udp nor tcp",
        };
        formatter.write_str(kind)?;
        if let Some(address) = self.address {
            write!(formatter, " {address}")?;
        }
        if let Some(name) = &self.name {
            write!(formatter, " ({name})")?;
        }
        Ok(())
    }
}

/// The key of the configuration, and the name of a socket that is for it.
const ADMIN: &str = "admin";

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::unix::net::UnixDatagram;

    use super::*;

    fn udp(name: &str) -> (Inherited, SocketAddr) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        (Inherited { name: (!name.is_empty()).then(|| name.to_owned()), socket: socket.into() }, address)
    }

    fn addresses(sockets: Vec<OwnedFd>) -> Vec<SocketAddr> {
        sockets.into_iter().map(|socket| UdpSocket::from(socket).local_addr().unwrap()).collect()
    }

    #[test]
    fn sockets_find_their_listeners_by_name_or_address() {
        let (syslog, syslog_address) = udp("syslog");
        let (first, first_address) = udp("weir-tee.socket");
        let (second, second_address) = udp("weir-tee.socket");
        let (unnamed, unnamed_address) = udp("");
        let admin = TcpListener::bind("127.0.0.1:0").unwrap();
        let admin_address = admin.local_addr().unwrap();
        let admin = Inherited { name: Some("weir-tee.socket".into()), socket: admin.into() };
        let mut passed = Passed::new(vec![syslog, first, second, unnamed, admin]);

        let elsewhere: SocketAddr = "192.0.2.1:9".parse().unwrap();
        let mut take = |name: &str, address| addresses(passed.take(Kind::Datagrams, name, address));
        assert_eq!(take("none", elsewhere), []);
        // Its name is enough, whatever address the listener has.
        assert_eq!(take("syslog", elsewhere), [syslog_address]);
        assert_eq!(take("syslog", syslog_address), []);
        // One name for all sockets of a unit.
        assert_eq!(take("weir-tee.socket", second_address), [second_address]);
        assert_eq!(take("first", first_address), [first_address]);
        assert_eq!(take("unnamed", unnamed_address), [unnamed_address]);
        assert_eq!(take("admin", admin_address), []);
        assert_eq!(passed.take(Kind::Connections, "admin", admin_address).len(), 1);
        assert_eq!(passed.finish(), Ok(()));
    }

    #[test]
    fn several_sockets_of_one_address_belong_together() {
        let (one, address) = udp("");
        let again = Inherited { name: None, socket: one.socket.try_clone().unwrap() };
        let mut passed = Passed::new(vec![one, again]);
        assert_eq!(addresses(passed.take(Kind::Datagrams, "a", address)), [address, address]);
    }

    #[test]
    fn what_nobody_takes_is_named() {
        let (unnamed, unnamed_address) = udp("");
        let (named, named_address) = udp("syslog");
        let (unix, _other) = UnixDatagram::pair().unwrap();
        let passed = Passed::new(vec![unnamed, named, Inherited { name: None, socket: unix.into() }]);
        let line = passed.finish().unwrap_err().to_string();
        let sockets =
            format!("udp {unnamed_address}, udp {named_address} (syslog), a socket that is neither udp nor tcp");
        assert_eq!(
            line,
            format!(
                "socket activation: nothing listens on {sockets} (give a listener, or for tcp `admin`, this address, or \
                 the socket unit `FileDescriptorName=` with a listener's name or `admin`)"
            )
        );
    }
}
