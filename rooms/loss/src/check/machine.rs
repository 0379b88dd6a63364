//! Settings of this machine, read and written.

use std::collections::HashMap;

use anyhow::{Context, Result, anyhow, bail};
use nix::errno::Errno;
use nix::unistd::geteuid;
use weir_kernel::ethtool::{Coalescing, Ethtool};
use weir_kernel::namespaces::{self, NetNs, user};
use weir_kernel::sockets::{Sockets, borrow, owners, set_receive_buffer};
use weir_kernel::sysctl;

use super::apply::Machine;
use super::changes::Namespace;
use super::setting::Setting;

/// The machine we run on.
#[derive(Debug, Default)]
pub(super) struct Linux {
    namespaces: HashMap<Namespace, NetNs>,
}

impl Machine for Linux {
    fn home(&mut self, netns: Option<&Namespace>, setting: &Setting) -> Result<Namespace> {
        let own = NetNs::current()?;
        let is_whole =
            matches!(setting, Setting::Sysctl { path } if WHOLE.iter().any(|prefix| path.starts_with(prefix)));
        match netns {
            Some(other) if !is_whole => Ok(other.clone()),
            // By its name it can be found from elsewhere; without, among those of all processes.
            _ => Namespace::of(&own, namespaces::name_of(own.inode()?).unwrap_or_default()),
        }
    }

    fn read(&mut self, home: &Namespace, setting: &Setting) -> Result<Option<String>> {
        let ns = self.namespace(home)?;
        Ok(match setting {
            Setting::Sysctl { path } => {
                let value = sysctl::find(&ns, below_net(path)?)?;
                // Lists are shown with tabs in between.
                value.map(|value| value.split_whitespace().collect::<Vec<_>>().join(" "))
            }
            Setting::SocketBuffer { cookie, .. } => {
                let socket = Sockets::open(&ns)?.read()?.into_iter().find(|socket| socket.cookie == Some(*cookie));
                socket.and_then(|socket| socket.memory.receive_buffer).map(|bytes| bytes.to_string())
            }
            Setting::Ring { interface } => {
                present(Ethtool::open(&ns)?.ring(interface))?.map(|ring| ring.length.to_string())
            }
            Setting::Moderation { interface } => {
                let moderation = present(Ethtool::open(&ns)?.coalescing(interface))?;
                moderation.map(|moderation| moderation.receive_us.to_string())
            }
        })
    }

    fn write(&mut self, home: &Namespace, setting: &Setting, value: &str) -> Result<()> {
        let gone = || anyhow!("{setting}: it is no more");
        let ns = self.namespace(home)?;
        let number = || value.parse::<u32>().with_context(|| format!("{setting}: {value} is no number"));
        match setting {
            Setting::Sysctl { path } => sysctl::set(&ns, &[(below_net(path)?, value)])?,
            Setting::SocketBuffer { cookie, .. } => {
                let socket = Sockets::open(&ns)?.read()?.into_iter().find(|socket| socket.cookie == Some(*cookie));
                let socket = socket.ok_or_else(gone)?;
                let owners = owners()?;
                let owner = owners.of(socket.inode).first().ok_or_else(|| anyhow!("{setting}: no process holds it"))?;
                set_receive_buffer(borrow(owner.pid, owner.fd)?, number()?)?;
            }
            Setting::Ring { interface } => Ethtool::open(&ns)?.set_ring(interface, number()?)?,
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
    /// Finds a namespace again: ours, by its name, or among those of all processes.
    fn namespace(&mut self, wanted: &Namespace) -> Result<NetNs> {
        if let Some(known) = self.namespaces.get(wanted) {
            return Ok(known.try_clone()?);
        }
        let named = || if wanted.name.is_empty() { None } else { namespaces::find(&wanted.name).ok() };
        let listed = || {
            let all = namespaces::all().unwrap_or_default();
            all.into_iter().find(|listed| u64::from(listed.inode) == wanted.inode)?.open().ok()
        };
        let found = [NetNs::current().ok(), named(), listed()].into_iter().flatten().find(|ns| wanted.is(ns));
        let Some(ns) = found else {
            bail!(
                "network namespace {wanted} (inode {}) is not to be found from here: run this where it can be seen; \
                 if it is gone, so is the change, and it may be taken out of the list of changes",
                wanted.inode
            );
        };
        self.namespaces.insert(wanted.clone(), ns.try_clone()?);
        Ok(ns)
    }
}

impl Namespace {
    /// How a namespace is to be found again.
    ///
    /// # Errors
    /// If the descriptor refers to something else.
    pub(super) fn of(ns: &NetNs, name: String) -> Result<Namespace> {
        Ok(Namespace { name, inode: ns.inode()?.into(), cookie: ns.cookie() })
    }

    /// Whether it is this one, and not another that has its number now.
    fn is(&self, ns: &NetNs) -> bool {
        let same = ns.inode().is_ok_and(|inode| u64::from(inode) == self.inode);
        same && self.cookie.zip(ns.cookie()).is_none_or(|(one, other)| one == other)
    }
}

/// Whether the process is root of the machine, not of a user namespace.
pub(super) fn is_root() -> bool {
    user::is_first() == Some(true) && geteuid().is_root()
}

/// Sysctls of the whole machine: they are shown to no other namespace, or may not be written there.
const WHOLE: [&str; 3] = ["net/core/", "net/ipv4/udp_mem", "net/netfilter/nf_conntrack_max"];

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
        let netns = Namespace::of(&ns, "here".into()).unwrap();
        machine.namespaces.insert(netns.clone(), ns);
        let setting = Setting::sysctl("net/ipv4/conf/lo/rp_filter");
        assert_eq!(machine.read(&netns, &setting).unwrap().as_deref(), Some("0"));
        machine.write(&netns, &setting, "2").unwrap();
        assert_eq!(machine.read(&netns, &setting).unwrap().as_deref(), Some("2"));
        let ports = Setting::sysctl("net/ipv4/ip_local_port_range");
        assert_eq!(machine.read(&netns, &ports).unwrap().as_deref(), Some("32768 60999"));
        let backlog = Setting::sysctl("net/core/netdev_max_backlog");
        let home = machine.home(Some(&netns), &backlog).unwrap();
        let most = machine.read(&home, &backlog).unwrap();
        assert!(most.is_some_and(|most| most.parse::<u64>().is_ok()), "of the whole machine");

        assert_eq!(machine.read(&netns, &Setting::Ring { interface: "none".into() }).unwrap(), None);
        let missing = Setting::SocketBuffer { cookie: 1 << 60, address: "0.0.0.0:5".into() };
        assert_eq!(machine.read(&netns, &missing).unwrap(), None);
        let other = Namespace { name: "no-such-namespace".into(), inode: 1, cookie: None };
        let unseen = machine.read(&other, &setting).unwrap_err().to_string();
        assert!(unseen.starts_with("network namespace no-such-namespace (inode 1) is not to be found"), "{unseen}");
        assert!(machine.write(&netns, &Setting::sysctl("net/../kernel/panic"), "0").is_err());
    }

    /// The kernel gives the number of a namespace that is gone to the next one.
    #[test]
    fn another_namespace_with_the_same_number_is_another() {
        let ns = NetNs::create().unwrap();
        let own = Namespace::of(&ns, String::new()).unwrap();
        assert!(Linux::default().namespace(&own).is_ok(), "by its number, among those that processes hold");
        if own.cookie.is_none() {
            return; // Linux before 5.14 does not tell them apart.
        }
        let before = Namespace { cookie: own.cookie.map(|cookie| cookie + 1_000_000), ..own };
        assert!(Linux::default().namespace(&before).is_err());
    }

    #[test]
    fn a_socket_gets_another_buffer_while_it_is_open() {
        let ns = NetNs::create().unwrap();
        let socket = ns.run(|| std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        let cookie = Sockets::open(&ns).unwrap().read().unwrap()[0].cookie.unwrap();
        let mut machine = Linux::default();
        let netns = Namespace::of(&ns, "here".into()).unwrap();
        machine.namespaces.insert(netns.clone(), ns);
        let setting = Setting::SocketBuffer { cookie, address: String::new() };
        machine.write(&netns, &setting, "100000").unwrap();
        assert_eq!(machine.read(&netns, &setting).unwrap().as_deref(), Some("100000"));
        drop(socket);
        assert_eq!(machine.read(&netns, &setting).unwrap(), None);
    }
}
