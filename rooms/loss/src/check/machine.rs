//! Settings of this machine, read and written.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use anyhow::{Context, Result, anyhow, bail};
use nix::errno::Errno;
use nix::unistd::geteuid;
use weir_kernel::ethtool::{Coalescing, Ethtool};
use weir_kernel::namespaces::{self, NetNs, user};
use weir_kernel::sockets::{Sockets, borrow, owners, set_receive_buffer};
use weir_kernel::sysctl;

use super::apply::Machine;
use super::journal::Namespace;
use super::setting::Setting;

/// The machine we run on.
#[derive(Debug, Default)]
pub(super) struct Linux {
    namespaces: HashMap<Namespace, NetNs>,
    /// How often something was written.
    writes: Rc<Cell<u64>>,
}

impl Machine for Linux {
    fn read(&mut self, netns: Option<&Namespace>, setting: &Setting) -> Result<Option<String>> {
        let Some(ns) = self.namespace(netns)? else { return Ok(None) };
        Ok(match setting {
            Setting::Sysctl { path } => {
                let value = sysctl::find(&home(&ns, path)?, below_net(path)?)?;
                // Lists are shown with tabs in between.
                value.map(|value| value.split_whitespace().collect::<Vec<_>>().join(" "))
            }
            Setting::SocketBuffer { cookie, .. } => {
                let socket = Sockets::open(&ns)?.read()?.into_iter().find(|socket| socket.cookie == Some(*cookie));
                socket.and_then(|socket| socket.memory.receive_buffer).map(|bytes| bytes.to_string())
            }
            Setting::Ring { interface } => {
                present(Ethtool::open(&ns)?.rings(interface))?.map(|rings| rings.receive.to_string())
            }
            Setting::Moderation { interface } => {
                let moderation = present(Ethtool::open(&ns)?.coalescing(interface))?;
                moderation.map(|moderation| moderation.receive_us.to_string())
            }
        })
    }

    fn write(&mut self, netns: Option<&Namespace>, setting: &Setting, value: &str) -> Result<()> {
        self.writes.set(self.writes.get() + 1);
        let gone = || anyhow!("{setting}: it is no more");
        let ns = self.namespace(netns)?.ok_or_else(gone)?;
        let number = || value.parse::<u32>().with_context(|| format!("{setting}: {value} is no number"));
        match setting {
            Setting::Sysctl { path } => sysctl::set(&home(&ns, path)?, &[(below_net(path)?, value)])?,
            Setting::SocketBuffer { cookie, .. } => {
                let socket = Sockets::open(&ns)?.read()?.into_iter().find(|socket| socket.cookie == Some(*cookie));
                let socket = socket.ok_or_else(gone)?;
                let owners = owners()?;
                let owner = owners.of(socket.inode).first().ok_or_else(|| anyhow!("{setting}: no process holds it"))?;
                set_receive_buffer(borrow(owner.pid, owner.fd)?, number()?)?;
            }
            Setting::Ring { interface } => Ethtool::open(&ns)?.set_rings(interface, Some(number()?), None)?,
            Setting::Moderation { interface } => {
                let ethtool = Ethtool::open(&ns)?;
                let now = ethtool.coalescing(interface)?.ok_or_else(gone)?;
                ethtool.set_coalescing(interface, &Coalescing { receive_us: number()?, ..now })?;
            }
        }
        Ok(())
    }
}

impl Linux {
    /// How often something was written: what was measured holds until the next time.
    pub(super) fn writes(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.writes)
    }

    /// `None`: it is no more.
    fn namespace(&mut self, wanted: Option<&Namespace>) -> Result<Option<NetNs>> {
        let Some(wanted) = wanted else { return Ok(Some(NetNs::current()?)) };
        if let Some(known) = self.namespaces.get(wanted) {
            return Ok(Some(known.try_clone()?));
        }
        let Some(ns) = namespaces::find(&wanted.name).ok().filter(|ns| ns.inode().map(u64::from) == Ok(wanted.inode))
        else {
            return Ok(None);
        };
        self.namespaces.insert(wanted.clone(), ns.try_clone()?);
        Ok(Some(ns))
    }
}

/// Whether the process is root of the machine, not of a user namespace.
pub(super) fn is_root() -> bool {
    user::is_first() == Some(true) && geteuid().is_root()
}

/// Where a sysctl is: those of the whole machine are shown to no other namespace, or may not be written there.
fn home(ns: &NetNs, path: &str) -> Result<NetNs> {
    let whole = ["net/core/", "net/ipv4/udp_mem", "net/netfilter/nf_conntrack_max"];
    let own = !whole.iter().any(|prefix| path.starts_with(prefix));
    Ok(if own { ns.try_clone()? } else { NetNs::current()? })
}

fn below_net(path: &str) -> Result<&str> {
    match path.strip_prefix("net/") {
        Some(rest) if !rest.split('/').any(|part| part == "..") => Ok(rest),
        _ => bail!("{path}: no setting of the network"),
    }
}

/// An interface that is no more has no settings.
fn present<T>(answer: Result<Option<T>, weir_kernel::Error>) -> Result<Option<T>> {
    match answer {
        Err(error) if error.errno() == Some(Errno::ENODEV) => Ok(None),
        answer => Ok(answer?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespaces_own_settings_are_read_and_written() {
        let ns = NetNs::create().unwrap();
        let mut machine = Linux::default();
        let netns = Namespace { name: "here".into(), inode: ns.inode().unwrap().into() };
        machine.namespaces.insert(netns.clone(), ns);
        let setting = Setting::sysctl("net/ipv4/conf/lo/rp_filter");
        assert_eq!(machine.read(Some(&netns), &setting).unwrap().as_deref(), Some("0"));
        machine.write(Some(&netns), &setting, "2").unwrap();
        assert_eq!(machine.read(Some(&netns), &setting).unwrap().as_deref(), Some("2"));
        let ports = Setting::sysctl("net/ipv4/ip_local_port_range");
        assert_eq!(machine.read(Some(&netns), &ports).unwrap().as_deref(), Some("32768 60999"));
        let most = machine.read(Some(&netns), &Setting::sysctl("net/core/netdev_max_backlog")).unwrap();
        assert!(most.is_some_and(|most| most.parse::<u64>().is_ok()), "of the whole machine");

        assert_eq!(machine.read(Some(&netns), &Setting::Ring { interface: "none".into() }).unwrap(), None);
        let missing = Setting::SocketBuffer { cookie: 1 << 60, address: "0.0.0.0:5".into() };
        assert_eq!(machine.read(Some(&netns), &missing).unwrap(), None);
        let other = Namespace { name: "no-such-namespace".into(), inode: 1 };
        assert_eq!(machine.read(Some(&other), &setting).unwrap(), None);
        assert!(machine.write(None, &Setting::sysctl("net/../kernel/panic"), "0").is_err());
    }

    #[test]
    fn a_socket_gets_another_buffer_while_it_is_open() {
        let ns = NetNs::create().unwrap();
        let socket = ns.run(|| std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        let cookie = Sockets::open(&ns).unwrap().read().unwrap()[0].cookie.unwrap();
        let mut machine = Linux::default();
        let netns = Namespace { name: "here".into(), inode: ns.inode().unwrap().into() };
        machine.namespaces.insert(netns.clone(), ns);
        let setting = Setting::SocketBuffer { cookie, address: String::new() };
        machine.write(Some(&netns), &setting, "100000").unwrap();
        assert_eq!(machine.read(Some(&netns), &setting).unwrap().as_deref(), Some("100000"));
        drop(socket);
        assert_eq!(machine.read(Some(&netns), &setting).unwrap(), None);
    }
}
