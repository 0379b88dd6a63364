//! Multicast groups that a namespace's interfaces have joined.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;

use nix::errno::Errno;

use crate::Error;
use crate::error::During;
use crate::links::Index;
use crate::namespaces::NetNs;
use crate::proc::read;
use crate::sys;

/// A group that an interface receives. Which sockets joined it the kernel does not
/// tell, but see [`has_joined`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The interface's index.
    pub interface: Index,
    /// Its name.
    pub name: String,
    /// The group.
    pub group: IpAddr,
    /// How many joined it: sockets, and the kernel itself for 224.0.0.1, ff02::1 and the like.
    pub users: u32,
}

/// The groups that the interfaces of a namespace have joined (/proc/net/igmp, igmp6).
///
/// # Errors
/// If the namespace cannot be entered or /proc/net cannot be read.
pub fn groups(ns: &NetNs) -> Result<Vec<Membership>, Error> {
    ns.run(|| {
        let mut groups = parse_igmp(&read("igmp")?);
        // Absent in a kernel without IPv6.
        groups.extend(parse_igmp6(&read("igmp6").unwrap_or_default()));
        Ok(groups)
    })?
}

/// Whether a socket has joined a group on an interface; the kernel tells it of a descriptor alone, so that of another
/// program's must be borrowed ([`super::borrow()`]).
///
/// # Errors
/// If it is no socket of the group's kind.
pub fn has_joined(socket: impl AsFd, group: IpAddr, interface: Index) -> Result<bool, Error> {
    match sys::source_filter(socket.as_fd(), group, interface) {
        Ok(()) => Ok(true),
        Err(Errno::EADDRNOTAVAIL) => Ok(false),
        Err(errno) => Err(errno).during(|| format!("ask whether a socket has joined {group}")),
    }
}

/// `4  eth0  : 1  V3`, a line an interface, and under it `010000E0 1 0:00000000 0`, a line a group: its address as the
/// processor has it, in hexadecimal, and its users (net/ipv4/igmp.c, igmp_mc_seq_show).
pub(crate) fn parse_igmp(text: &str) -> Vec<Membership> {
    let (mut groups, mut interface) = (Vec::new(), None);
    for line in text.lines().skip(1) {
        let mut words = line.split_whitespace();
        if line.starts_with(char::is_whitespace) {
            let group = words.next().and_then(|word| u32::from_str_radix(word, 16).ok());
            let users = words.next().and_then(|word| word.parse().ok());
            if let (Some((interface, name)), Some(group), Some(users)) = (&interface, group, users) {
                let group = Ipv4Addr::from(group.to_ne_bytes()).into();
                groups.push(Membership { interface: *interface, name: String::clone(name), group, users });
            }
        } else {
            let index = words.next().and_then(|word| word.parse().ok());
            interface = index.zip(words.next().map(str::to_owned));
        }
    }
    groups
}

/// `4 eth0 ff02...01 1 0000000C 0`, a line a group (net/ipv6/mcast.c, igmp6_mc_seq_show).
pub(crate) fn parse_igmp6(text: &str) -> Vec<Membership> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [interface, name, group, users] = *words.first_chunk()?;
        let group =
            if group.len() == 32 { Ipv6Addr::from(u128::from_str_radix(group, 16).ok()?).into() } else { return None };
        Some(Membership {
            interface: interface.parse().ok()?,
            name: name.to_owned(),
            group,
            users: users.parse().ok()?,
        })
    };
    text.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_kernels_write() {
        let member = |interface, name: &str, group: &str, users| Membership {
            interface,
            name: name.into(),
            group: group.parse().unwrap(),
            users,
        };
        let word = |group: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(group));
        let igmp = format!(
            "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n1\tlo        :     1      V3\n\
             \t\t\t\t{}     1 0:00000000\t\t0\n4\teth0      :     2      V3\n\t\t\t\t{}     3 0:00000000\t\t0\n",
            word([224, 0, 0, 1]),
            word([239, 1, 2, 3])
        );
        assert_eq!(parse_igmp(&igmp), [member(1, "lo", "224.0.0.1", 1), member(4, "eth0", "239.1.2.3", 3)]);
        let igmp6 = "1    lo              ff020000000000000000000000000001     1 0000000C 0\n4 eth0 short 1 4 0\n";
        assert_eq!(parse_igmp6(igmp6), [member(1, "lo", "ff02::1", 1)]);
    }

    proptest! {
        #[test]
        fn lines_that_look_otherwise_are_left_out(strange in prop::collection::vec("\\PC{0,30}", 2), users: u32) {
            let [before, after] = [&strange[0], &strange[1]];
            let group = u32::from_ne_bytes([239, 1, 2, 3]);
            // A word that is no number, where the group is.
            let igmp = format!("heading\n4 eth0 : 1 V3\n\tG{before}\n\t{group:08X} {users} 0:0 0\n\tG{after}\n");
            // Too short for a group.
            let igmp6 = format!("{before}\n4 eth0 ff020000000000000000000000000001 {users} 4 0\n{after}\n");
            for (read, group) in [(parse_igmp(&igmp), "239.1.2.3"), (parse_igmp6(&igmp6), "ff02::1")] {
                let sound = Membership { interface: 4, name: "eth0".into(), group: group.parse().unwrap(), users };
                prop_assert_eq!(read, [sound]);
            }
            let members = parse_igmp(before);
            prop_assert!(members.is_empty(), "without a heading: {:?}", members);
        }
    }
}
