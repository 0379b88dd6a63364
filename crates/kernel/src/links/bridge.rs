//! Bridges: make, add ports, listen to multicast.

use std::time::Duration;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::link::{
    BridgeMulticastRouterType, BridgeStpState, InfoBridge, InfoBridgePort, InfoData, InfoKind, InfoPortData,
    InfoPortKind, LinkAttribute, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use nix::sys::utsname::uname;

use super::interface::{about, check_name};
use super::{Index, MacAddress, Netlink};
use crate::Error;

/// A bridge to be made.
#[derive(Clone, Copy, Debug)]
pub struct BridgeSettings {
    /// Ethernet address of the bridge itself.
    pub mac: MacAddress,
    /// Whether multicast goes only where a listener has reported; while nobody queries (see
    /// [`Netlink::enable_querier`]) it goes everywhere all the same.
    pub multicast_snooping: bool,
    /// After how long without traffic an Ethernet address is forgotten.
    pub ageing: Duration,
}

/// How a bridge deals with groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snooping {
    /// The bridge's name.
    pub bridge: String,
    /// Its index.
    pub index: Index,
    /// Whether groups go only to ports that lead to a listener.
    pub snoops: bool,
    /// Whether it asks itself who listens.
    pub asks: bool,
    /// Whether anybody is known to ask, this bridge included; `None`: the kernel does not tell (before 5.16), or the bridge
    /// does not snoop.
    pub asked: Option<bool>,
}

impl Netlink {
    /// How the bridges of this namespace deal with groups.
    ///
    /// # Errors
    /// If the kernel's answer cannot be read.
    pub fn snooping(&mut self) -> Result<Vec<Snooping>, Error> {
        let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let answers = self.socket.list(request, || "list bridges")?;
        let bridge = |answer| match answer {
            RouteNetlinkMessage::NewLink(message) => Snooping::from_message(message),
            _ => None,
        };
        Ok(answers.into_iter().filter_map(bridge).collect())
    }

    /// Makes an Ethernet bridge without spanning tree in this namespace, down, and returns its index.
    ///
    /// # Errors
    /// If the name is taken or not valid, or the kernel has no bridges.
    pub fn add_bridge(&mut self, name: &str, settings: &BridgeSettings) -> Result<Index, Error> {
        let operation = || format!("create bridge {name}");
        check_name(name, operation)?;
        let bridge = vec![
            InfoBridge::StpState(BridgeStpState::Disabled),
            InfoBridge::ForwardDelay(0),
            InfoBridge::MulticastSnooping(settings.multicast_snooping),
            InfoBridge::AgeingTime(clock_ticks(settings.ageing)),
        ];
        let mut message = LinkMessage::default();
        message.attributes = vec![
            LinkAttribute::IfName(name.into()),
            LinkAttribute::Address(settings.mac.0.to_vec()),
            LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Bridge), LinkInfo::Data(InfoData::Bridge(bridge))]),
        ];
        self.socket.change(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL, operation)?;
        Ok(self.link(name)?.index)
    }

    /// Lets a snooping bridge ask who listens, by IGMPv3 and, once it has a link-local address to ask from, by MLDv2;
    /// only a bridge that hears a querier holds groups back from ports without a listener. Every listener has answered
    /// `within` that time, and until it is over the bridge still floods (net/bridge/br_multicast.c,
    /// br_multicast_set_querier). Every port asks at once.
    ///
    /// # Errors
    /// If there is no bridge of that index.
    pub fn enable_querier(&mut self, bridge: Index, within: Duration) -> Result<(), Error> {
        let times = vec![
            InfoBridge::MulticastQueryResponseInterval(clock_ticks(within).into()),
            // Bridges that all ask from 0.0.0.0 fall silent when they hear one another, for this long. The kernel's
            // 255 s would leave 5 s until memberships end.
            InfoBridge::MulticastQuerierInterval(clock_ticks(OTHER_QUERIER).into()),
            InfoBridge::MulticastIgmpVersion(3),
            InfoBridge::MulticastMldVersion(2),
        ];
        // The kernel takes the attributes of one request in an order of its own, the querier before its times.
        for settings in [times, vec![InfoBridge::MulticastQuerier(true)]] {
            let mut message = about(bridge);
            let data = LinkInfo::Data(InfoData::Bridge(settings));
            message.attributes = vec![LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Bridge), data])];
            let operation = || format!("enable the multicast querier of bridge {bridge}");
            self.socket.change(RouteNetlinkMessage::NewLink(message), 0, operation)?;
        }
        Ok(())
    }

    /// Makes an interface a port of a bridge.
    ///
    /// # Errors
    /// If either is missing, or the second is no bridge.
    pub fn set_bridge(&mut self, index: Index, bridge: Index) -> Result<(), Error> {
        let mut message = about(index);
        message.attributes = vec![LinkAttribute::Controller(bridge)];
        let operation = || format!("add interface {index} to bridge {bridge}");
        self.socket.change(RouteNetlinkMessage::SetLink(message), 0, operation)
    }

    /// Hands every multicast frame and every listener's report to a port, as to a multicast router. For ports that lead
    /// to other bridges: those learn of all listeners then, whichever of them asks (RFC 4541, section 2.1.1, keeps
    /// reports from other ports).
    ///
    /// # Errors
    /// If the interface is no port of a bridge.
    pub fn set_multicast_router(&mut self, port: Index) -> Result<(), Error> {
        let settings = vec![InfoBridgePort::MulticastRouter(BridgeMulticastRouterType::Permanent)];
        let data = LinkInfo::PortData(InfoPortData::BridgePort(settings));
        let mut message = about(port);
        message.attributes = vec![LinkAttribute::LinkInfo(vec![LinkInfo::PortKind(InfoPortKind::Bridge), data])];
        let operation = || format!("make port {port} lead to a multicast router");
        self.socket.change(RouteNetlinkMessage::NewLink(message), 0, operation)
    }

    /// Tells a bridge for ever which port an Ethernet address is behind, so that it never floods what goes there.
    /// Replaces what it has learnt.
    ///
    /// # Errors
    /// If the interface is no port of a bridge.
    pub fn add_forwarding_entry(&mut self, port: Index, mac: MacAddress) -> Result<(), Error> {
        let mut message = NeighbourMessage::default();
        message.header.family = AddressFamily::Bridge;
        message.header.ifindex = port;
        message.header.state = NeighbourState::Noarp;
        message.header.flags = NeighbourFlags::Controller;
        message.attributes = vec![NeighbourAttribute::LinkLayerAddress(mac.0.to_vec())];
        let operation = || format!("tell the bridge that {mac} is behind port {port}");
        self.socket.change(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE | NLM_F_REPLACE, operation)
    }
}

impl Snooping {
    /// `None`: no bridge.
    fn from_message(message: LinkMessage) -> Option<Snooping> {
        let mut found =
            Snooping { bridge: String::new(), index: message.header.index, snoops: false, asks: false, asked: None };
        let mut settings = None;
        for attribute in message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => found.bridge = name,
                LinkAttribute::LinkInfo(infos) => {
                    settings = infos.into_iter().find_map(|info| match info {
                        LinkInfo::Data(InfoData::Bridge(settings)) => Some(settings),
                        _ => None,
                    });
                }
                _ => {}
            }
        }
        let mut querier = false;
        for setting in settings? {
            match setting {
                InfoBridge::MulticastSnooping(on) => found.snoops = on,
                InfoBridge::MulticastQuerier(on) => found.asks = on,
                // Left out while no querier is known (net/bridge/br_multicast.c, br_multicast_dump_querier_state).
                InfoBridge::MulticastQuerierState(state) => querier = !state.is_empty(),
                _ => {}
            }
        }
        found.asked = (found.snoops && (querier || tells_queriers())).then_some(querier);
        Some(found)
    }
}

/// Whether the kernel tells of queriers (IFLA_BR_MCAST_QUERIER_STATE, from Linux 5.16).
fn tells_queriers() -> bool {
    let release = uname().map(|name| name.release().to_string_lossy().into_owned()).unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(5), Some(16))
}

/// Hundredths of a second (USER_HZ), as the bridge's times are given.
fn clock_ticks(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis() / 10).unwrap_or(u32::MAX)
}

/// A little more than the 125 s from one query to the next.
const OTHER_QUERIER: Duration = Duration::from_secs(130);
