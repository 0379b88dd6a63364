//! Routing rules: which packets look for their route in which table.

use std::ops::RangeInclusive;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage, RulePortRange};
use netlink_packet_route::{AddressFamily, IpProtocol, RouteNetlinkMessage};
use nix::errno::Errno;

use super::Netlink;
use crate::Error;

/// Sends TCP connections to a routing table by their ports. What is absent matches any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpRule {
    /// Rules are tried in ascending order; the kernel's own are 0 (table local) and 32766 (table main).
    pub priority: u32,
    /// For IPv6, else for IPv4.
    pub ipv6: bool,
    /// Ports of this end of the connection.
    pub source_ports: Option<RangeInclusive<u16>>,
    /// Ports of the other end.
    pub destination_ports: Option<RangeInclusive<u16>>,
    /// Number of the table; without a matching route in it the next rule is tried.
    pub table: u32,
}

/// The table that routes go to unless told otherwise (RT_TABLE_MAIN).
pub const MAIN_TABLE: u32 = 254;

impl Netlink {
    /// Adds a rule. It holds for connections made from now on.
    ///
    /// # Errors
    /// [`Error::NoIpv6`] for IPv6 where the kernel has none; else if the same rule is there already, or the kernel has
    /// no policy routing (CONFIG_IP_MULTIPLE_TABLES).
    pub fn add_rule(&mut self, rule: &TcpRule) -> Result<(), Error> {
        let range = |ports: &RangeInclusive<u16>| RulePortRange { start: *ports.start(), end: *ports.end() };
        let mut message = RuleMessage::default();
        message.header.family = if rule.ipv6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
        message.header.action = RuleAction::ToTable;
        message.attributes = vec![
            RuleAttribute::Priority(rule.priority),
            RuleAttribute::IpProtocol(IpProtocol::Tcp),
            RuleAttribute::Table(rule.table),
        ];
        message.attributes.extend(rule.source_ports.as_ref().map(range).map(RuleAttribute::SourcePortRange));
        message.attributes.extend(rule.destination_ports.as_ref().map(range).map(RuleAttribute::DestinationPortRange));
        let operation = || format!("add a routing rule of priority {} to table {}", rule.priority, rule.table);
        match self.socket.change(RouteNetlinkMessage::NewRule(message), NLM_F_CREATE | NLM_F_EXCL, operation) {
            Err(error) if rule.ipv6 && matches!(error.errno(), Some(Errno::EAFNOSUPPORT | Errno::EOPNOTSUPP)) => {
                Err(Error::NoIpv6 { operation: operation() })
            }
            result => result,
        }
    }
}
