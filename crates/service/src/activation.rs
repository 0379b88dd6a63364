//! Sockets passed by a service manager, and which listener each is for.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use socket2::{SockRef, Type};
use weir_kernel::activation::Inherited;

/// Sockets that were passed and are not taken yet.
#[derive(Debug, Default)]
pub struct Passed(Vec<Socket>);

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
pub enum Kind {
    /// UDP: a listener for datagrams (`ListenDatagram=`).
    Datagrams,
    /// TCP: the admin address (`ListenStream=`).
    Connections,
    /// Neither.
    Other,
}

/// Sockets that nothing in the configuration asked for: datagrams would wait in them for ever.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "socket activation: nothing listens on {} (give a listener, or for tcp `admin`, this address, or the socket unit \
     `FileDescriptorName=` with a listener's name or `admin`)",
    .0.join(", ")
)]
pub struct Unused(Vec<String>);

impl Passed {
    /// What [`weir_kernel::activation::inherited`] took over.
    pub fn new(inherited: Vec<Inherited>) -> Self {
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

    /// Whether there is none left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the sockets for a listener: those of its name, else those bound to its address. Where a whole socket unit
    /// shares one name, the address tells its sockets apart: a socket of the name that is bound to another address than
    /// one of the same name is left. Empty: none was passed for it.
    pub fn take(&mut self, kind: Kind, name: &str, address: SocketAddr) -> Vec<OwnedFd> {
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

    /// Makes sure that all were taken.
    ///
    /// # Errors
    /// [`Unused`], naming those that were not.
    pub fn finish(self) -> Result<(), Unused> {
        if self.0.is_empty() { Ok(()) } else { Err(Unused(self.0.iter().map(Socket::to_string).collect())) }
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

impl AsFd for Socket {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
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
        assert!(passed.is_empty());
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
