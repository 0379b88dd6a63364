//! Protocol counters as in /proc/net/snmp, netstat and snmp6.

use std::collections::BTreeMap;

use crate::Error;
use crate::namespaces::NetNs;
use crate::proc::NetFile;

/// Reads the protocol counters of one network namespace again and again.
#[derive(Debug)]
pub struct Protocols {
    tables: [NetFile; 2],
    /// Absent in a kernel without IPv6.
    six: Option<NetFile>,
}

impl Protocols {
    /// Opens the counters of `ns`.
    ///
    /// # Errors
    /// If the namespace cannot be entered, without /proc, or out of file descriptors.
    pub fn open(ns: &NetNs) -> Result<Protocols, Error> {
        ns.run(|| {
            let tables = [NetFile::open("snmp")?, NetFile::open("netstat")?];
            Ok(Protocols { tables, six: NetFile::open("snmp6").ok() })
        })?
    }

    /// All counters now.
    ///
    /// # Errors
    /// If the kernel does not give them.
    pub fn read(&self) -> Result<Snmp, Error> {
        let mut counters = Snmp::default();
        for table in &self.tables {
            counters.add_tables(&table.read()?);
        }
        if let Some(six) = &self.six {
            counters.add_list(&six.read()?);
        }
        Ok(counters)
    }
}

/// Counters by protocol (`Ip`, `Udp`, `Tcp`, `TcpExt`, `IpExt`, `Udp6` ...) and name (`RcvbufErrors`), as the kernel
/// names them (net/ipv4/proc.c, net/ipv6/proc.c).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snmp {
    tables: BTreeMap<String, BTreeMap<String, i64>>,
}

impl Snmp {
    /// A counter; `None` where this kernel has none of that name. A few are no counts but settings and may be negative
    /// (`Tcp` `MaxConn`).
    pub fn get(&self, protocol: &str, name: &str) -> Option<i64> {
        self.tables.get(protocol)?.get(name).copied()
    }

    /// All counters as (protocol, name, value), in alphabetic order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, i64)> {
        self.tables.iter().flat_map(|(protocol, table)| {
            table.iter().map(move |(name, value)| (protocol.as_str(), name.as_str(), *value))
        })
    }

    /// What has been counted since `before`, by name; a counter that `before` does not have counts from 0.
    pub fn since(&self, before: &Snmp) -> Snmp {
        let mut difference = self.clone();
        for (protocol, table) in &mut difference.tables {
            for (name, value) in table {
                *value = value.wrapping_sub(before.get(protocol, name).unwrap_or(0));
            }
        }
        difference
    }

    /// Adds what /proc/net/snmp or netstat says: pairs of lines, `Udp: names ...` and `Udp: values ...`. What does not
    /// look so is left out.
    pub(crate) fn add_tables(&mut self, text: &str) {
        let mut lines = text.lines();
        while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
            let (Some((protocol, names)), Some((same, values))) = (names.split_once(':'), values.split_once(':'))
            else {
                continue;
            };
            if protocol != same {
                continue;
            }
            for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
                self.add(protocol, name, value);
            }
        }
    }

    /// Adds what /proc/net/snmp6 says: `Udp6RcvbufErrors 3`, a line each. The protocol ends with the 6.
    pub(crate) fn add_list(&mut self, text: &str) {
        for line in text.lines() {
            let mut words = line.split_whitespace();
            if let (Some(word), Some(value)) = (words.next(), words.next())
                && let Some(six) = word.find('6')
            {
                let (protocol, name) = word.split_at(six + 1);
                self.add(protocol, name, value);
            }
        }
    }

    fn add(&mut self, protocol: &str, name: &str, value: &str) {
        // Counters are 64 bits wide and unsigned.
        let value = value.parse::<i64>().or_else(|_| value.parse::<u64>().map(u64::cast_signed));
        if let Ok(value) = value {
            self.tables.entry(protocol.into()).or_default().insert(name.into(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_kernels_write() {
        let mut counters = Snmp::default();
        counters.add_tables(
            "Tcp: RtoAlgorithm MaxConn RetransSegs\nTcp: 1 -1 42\nUdp: InDatagrams RcvbufErrors\nUdp: 2687 7\n",
        );
        counters.add_list("Ip6InReceives                   \t12\nUdp6RcvbufErrors \t3\nIcmp6OutType135 5\n");
        let all: Vec<_> = counters.iter().collect();
        assert_eq!(
            all,
            [
                ("Icmp6", "OutType135", 5),
                ("Ip6", "InReceives", 12),
                ("Tcp", "MaxConn", -1),
                ("Tcp", "RetransSegs", 42),
                ("Tcp", "RtoAlgorithm", 1),
                ("Udp", "InDatagrams", 2687),
                ("Udp", "RcvbufErrors", 7),
                ("Udp6", "RcvbufErrors", 3),
            ]
        );
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(tables in prop::collection::btree_map(
            "[A-Z][A-Za-z]{0,8}", prop::collection::btree_map("[A-Z][A-Za-z0-9]{0,12}", any::<i64>(), 1..6), 0..5)) {
            let mut text = String::new();
            for (protocol, table) in &tables {
                let names: Vec<_> = table.keys().cloned().collect();
                let values: Vec<_> = table.values().map(i64::to_string).collect();
                text += &format!("{protocol}: {}\n{protocol}: {}\n", names.join(" "), values.join(" "));
            }
            let mut counters = Snmp::default();
            counters.add_tables(&text);
            prop_assert!(counters.since(&counters).iter().all(|(_, _, value)| value == 0));
            prop_assert_eq!(&counters.since(&Snmp::default()), &counters);
            prop_assert_eq!(counters, Snmp { tables });
        }

        #[test]
        fn lines_that_look_otherwise_are_left_out(strange in "\\PC{0,20}", value: i64) {
            let mut counters = Snmp::default();
            // Headings and values of different protocols; a line without a number.
            counters.add_tables(&format!("x: a{strange}\ny: 1\nUdp: InErrors\nUdp: {value}\nx: {strange}"));
            counters.add_list(&format!("Udp6NoPorts x{strange}\nUdp6InErrors {value}\n"));
            let read: Vec<_> = counters.iter().collect();
            prop_assert_eq!(read, [("Udp", "InErrors", value), ("Udp6", "InErrors", value)]);
        }
    }
}
